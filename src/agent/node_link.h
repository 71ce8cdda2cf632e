#pragma once

// An agent's link to its coordinator: dials it, keeps it, dials again when it ends, for as long as
// the object lives. Pauses between tries grow from kRetryMin to kRetryMax with some chance in them,
// so that a cluster that comes back doesn't knock all at once. A link that leaves its pings
// unanswered (cluster/liveness.h) counts as ended.
//
// Threads: one of its own, which delivers all events; send() from any thread. Events may call
// send() and must not block for long: while one runs, no ping is answered.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/stop.h"
#include "pipeline/control_link.h"
#include "transport/transport.h"
#include "wire/cluster.h"

namespace salvage::agent {

struct NodeLinkOptions {
  std::string llama_pin;
  std::string kernel_fingerprint;
  std::uint32_t wire_version = wire::kWireVersion;
  std::uint64_t retry_seed = 1;  // another for each machine, so that they don't try in step
};

struct NodeLinkEvents {
  // Asked before each try: best first; each names the coordinator's node id.
  std::function<std::vector<transport::Endpoint>()> addresses;
  // The link stands; the first thing to be sent on it is returned.
  std::function<wire::NodeFacts(const transport::Connection&)> up;
  // Every frame but pings and pongs. A failure ends the link.
  std::function<Result<void>(const transport::IncomingFrame&)> frame;
  // It ended, or could not be made: why, and when the next try is.
  std::function<void(const Error&, Duration retry_in)> down;
};

class NodeLink {
 public:
  NodeLink(NodeLinkOptions options, NodeLinkEvents events, transport::Transport& transport,
           const Clock& clock);
  ~NodeLink() { stop(); }
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  // Begins to dial.
  void start();
  // No event is delivered afterwards, and nothing is sent. Not from an event.
  void stop() EXCLUDES(mutex_);

  // `unavailable` while there is no link; what was not sent is not kept.
  template <typename Message>
  Result<void> send(const Message& message, PlanEpoch epoch = {}) EXCLUDES(mutex_) {
    const auto link = current();
    if (!link) return fail(ErrorCode::kUnavailable, "there is no link to the coordinator");
    return link->control.send(message, send_deadline(), epoch);
  }

  bool connected() const EXCLUDES(mutex_);
  // Dials now instead of at the end of the pause: an address has become known.
  void retry_now();
  // The link that there is, if any, is the last one; its end is no event any more.
  void dial_no_more() EXCLUDES(mutex_);

 private:
  struct Live {
    explicit Live(std::unique_ptr<transport::Connection> dialed)
        : connection(std::move(dialed)), control(*connection) {}
    std::unique_ptr<transport::Connection> connection;
    pipeline::ControlLink control;
  };

  void run();
  Result<void> serve();
  Result<void> receive(Live& live);
  Result<void> take(Live& live, const transport::IncomingFrame& frame);
  void pause(Duration time);
  bool ends() const EXCLUDES(mutex_);
  std::shared_ptr<Live> current() const EXCLUDES(mutex_);
  void set_current(std::shared_ptr<Live> live) EXCLUDES(mutex_);
  TimePoint send_deadline() const;

  const NodeLinkOptions options_;
  const NodeLinkEvents events_;
  transport::Transport& transport_;
  const Clock& clock_;

  StopSource stop_;
  mutable Mutex mutex_;
  Condition wake_;
  std::shared_ptr<Live> live_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool retry_ GUARDED_BY(mutex_) = false;
  bool last_ GUARDED_BY(mutex_) = false;  // no link is made any more
  std::thread thread_;
};

}  // namespace salvage::agent
