#pragma once

// One worker process as its parent sees it: the child, the control link to it, and what it has
// said. A thread of its own reads the link. Thread rule: everything from any thread, except that
// start() must be called by a thread that outlives the worker (base/process.h).

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/process.h"
#include "base/result.h"
#include "pipeline/control_link.h"
#include "pipeline/handshake.h"
#include "transport/transport.h"
#include "wire/cluster.h"

namespace salvage::agent {

// What a stage reports while it loads: its index, 0..1, and "weights" or "self_check".
using StageProgress =
    std::function<void(std::uint32_t stage, double fraction, const std::string& phase)>;

struct WorkerStart {
  std::string executable;
  std::string endpoint;  // where the worker shall listen
  std::uint32_t stage_index = 0;
  wire::Hello hello;
  // For the child's standard input: what authenticates its links (agent/worker_secret.h).
  std::string secret;
  std::vector<std::string> arguments;  // more of them
  StageProgress progress;
};

// How long a worker may take to answer with its counters.
inline constexpr std::chrono::seconds kStatsTime{5};
// A worker answers pings from a thread that never computes. So much silence means that it is
// stopped or that its machine cannot give it a time slice.
inline constexpr std::chrono::seconds kWorkerSilenceMax{10};
// A link that ends because its process died is seen before the process is.
inline constexpr std::chrono::milliseconds kDeathTime{500};

class WorkerLink {
 public:
  // Starts the process and introduces us. Fails with the worker's last words if it ends early.
  static Result<std::unique_ptr<WorkerLink>> start(const WorkerStart& start,
                                                   transport::Transport& transport,
                                                   const Clock& clock);
  ~WorkerLink();  // Tells the worker to leave, waits a little, kills it.
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;

  Result<void> load(const wire::LoadStage& order) { return link_->send(order); }
  // Where the worker listens; waits until it has said so.
  Result<wire::StageListening> listening(TimePoint deadline);
  // Waits for the outcome of load(): what was loaded, or why not.
  Result<wire::StageLoaded> loaded(TimePoint deadline);
  Result<wire::Stats> stats(bool reset, TimePoint deadline);

  // How the process ended, if it has; waits for its end until `deadline`.
  std::optional<Error> death(TimePoint deadline);
  // The failure that the stage itself reported, if it did.
  std::optional<Error> reported_failure();
  // Sends a ping. Why the worker counts as lost: it has left `pings_max` in a row unanswered.
  // Counted and not timed: a parent that was itself stopped must not blame its workers.
  std::optional<Error> silence(std::uint32_t pings_max);

  std::uint32_t stage_index() const { return stage_index_; }
  // Begins the end without waiting.
  void release();

 private:
  WorkerLink(Child child, const WorkerStart& start, const Clock& clock);
  Result<void> connect(const WorkerStart& start, transport::Transport& transport);
  void read_loop();
  Result<void> take(const transport::IncomingFrame& frame);
  Error died(const ExitStatus& status) REQUIRES(mutex_);

  const std::uint32_t stage_index_;
  const Clock& clock_;
  StageProgress progress_;
  std::unique_ptr<transport::Connection> connection_;
  std::unique_ptr<pipeline::ControlLink> link_;
  std::thread reader_;
  BoundedQueue<Result<wire::StageLoaded>> outcome_{1};
  BoundedQueue<wire::Stats> stats_{1};
  BoundedQueue<wire::StageListening> listening_{1};

  Mutex mutex_;
  Child child_ GUARDED_BY(mutex_);
  std::optional<Error> failure_ GUARDED_BY(mutex_);
  TimePoint last_heard_ GUARDED_BY(mutex_);
  std::uint32_t pings_unanswered_ GUARDED_BY(mutex_) = 0;
};

}  // namespace salvage::agent
