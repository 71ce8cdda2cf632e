#pragma once

// One stage of a plan on this machine, from "start it" to its end: starts the worker process, tells
// where it listens, hands it its load order, watches it, and reports what becomes of it. It decides
// nothing: whether a dead worker is started again is the coordinator's business.
//
// Threads: one of its own, on which the worker is spawned, so that the worker lives as long as it
// (base/process.h). load() and ask_stats() from any thread. Events come from that thread or from
// the link to the worker; after `failed` nothing more comes. The destructor ends the worker and
// waits, at most some two seconds.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "agent/worker_link.h"
#include "agent/worker_secret.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"
#include "base/stop.h"
#include "transport/transport.h"
#include "wire/cluster.h"

namespace salvage::agent {

struct StageRunnerOptions {
  std::string executable;  // ours: the worker runs `executable stage ...`
  std::string llama_pin;
  std::uint32_t wire_version = wire::kWireVersion;
  PlanEpoch epoch;
  StageIndex stage;
  WorkerSecret secret;
  // Non-empty if the stage before is on another machine: "--listen-remote" and its value.
  std::vector<std::string> remote_arguments;
};

// What the coordinator hears; each message carries epoch and stage.
struct StageEvents {
  // Endpoints as the worker sees them: "tls:[::]:7421"; the agent knows its own addresses.
  std::function<void(const wire::StageListening&)> listening;
  std::function<void(const wire::Progress&)> progress;
  std::function<void(const wire::StageLoaded&)> loaded;
  std::function<void(const wire::StageFailed&)> failed;
  std::function<void(const wire::Stats&)> stats;
};

class StageRunner {
 public:
  StageRunner(StageRunnerOptions options, StageEvents events, transport::Transport& transport,
              const Clock& clock);
  ~StageRunner();
  StageRunner(const StageRunner&) = delete;
  StageRunner& operator=(const StageRunner&) = delete;

  // The order's paths are this machine's.
  void load(const wire::LoadStage& order);
  void ask_stats(bool reset);

 private:
  struct AskStats {
    bool reset = false;
  };
  using Command = std::variant<wire::LoadStage, AskStats>;

  void run();
  Result<std::unique_ptr<WorkerLink>> start(const RunFolder& folder);
  Result<void> announce(WorkerLink& worker);
  Result<void> serve(WorkerLink& worker);
  Result<void> carry_out(WorkerLink& worker, const Command& command);
  Result<void> watch(WorkerLink& worker);
  std::optional<Error> explain(WorkerLink& worker, Error error);
  bool told_to_end(TimePoint deadline);
  void report_failure(const Error& error);

  const StageRunnerOptions options_;
  const StageEvents events_;
  transport::Transport& transport_;
  const Clock& clock_;
  BoundedQueue<Command> commands_{64};
  bool loading_ = false;  // the runner's thread only
  std::thread thread_;
};

}  // namespace salvage::agent
