#pragma once

// The link of a fetch to one machine that has pieces: asks for ranges, several ahead, and hands the
// answers on as they come. Dials when the first range is asked, and again after reset().
//
// Threads: one of its own, which dials, receives and delivers events; ask() and reset() from the
// fetch's thread. Events must not call back.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "pipeline/control_link.h"
#include "transport/transport.h"
#include "wire/cluster.h"

namespace salvage::agent {

struct SourceOptions {
  NodeId node;
  std::vector<transport::Endpoint> endpoints;  // best first, each with the node's id
  std::string llama_pin;
  std::uint32_t wire_version = wire::kWireVersion;
};

struct SourceAsk {
  std::uint64_t request = 0;
  wire::BlobRequest range;
};

struct SourceAnswer {
  std::uint64_t request = 0;
  std::vector<std::byte> bytes;
  std::uint64_t total_bytes = 0;  // of the whole blob
};

struct SourceEvents {
  std::function<void(SourceAnswer answer)> received;
  // The source answered that it can't, or the link broke.
  std::function<void(std::uint64_t request, const Error& error)> failed;
};

class WeightsSource {
 public:
  WeightsSource(SourceOptions options, SourceEvents events, transport::Transport& transport,
                const Clock& clock);
  ~WeightsSource();
  WeightsSource(const WeightsSource&) = delete;
  WeightsSource& operator=(const WeightsSource&) = delete;

  void ask(const SourceAsk& ask) EXCLUDES(mutex_);
  // Gives up everything that was asked, without events, and the connection with it.
  void reset() EXCLUDES(mutex_);

 private:
  void run();
  bool wait_for_work() EXCLUDES(mutex_);
  Result<void> serve();
  Result<void> send_asked(pipeline::ControlLink& link) EXCLUDES(mutex_);
  Result<void> receive_one(transport::Connection& connection) EXCLUDES(mutex_);
  void fail_all(const Error& error) EXCLUDES(mutex_);

  const SourceOptions options_;
  const SourceEvents events_;
  transport::Transport& transport_;
  const Clock& clock_;

  Mutex mutex_;
  Condition work_;
  std::deque<SourceAsk> waiting_ GUARDED_BY(mutex_);  // not sent yet
  std::deque<SourceAsk> sent_ GUARDED_BY(mutex_);     // answers come in this order
  std::shared_ptr<transport::Connection> connection_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace salvage::agent
