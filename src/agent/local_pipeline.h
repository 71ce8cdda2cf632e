#pragma once

// A pipeline whose stages are child processes of this one: starts a worker a stage, has them load
// at the same time, links them up, watches them, and ends them. Start it from a thread that lives
// as long as the pipeline: the kernel kills the workers when that thread ends.
//
// A worker that dies or stops answering ends every live request with an error that names it and
// quotes its last words; answers that survive come with the coordinator.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/worker_link.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"
#include "base/stop.h"
#include "engine/stage_engine.h"
#include "pipeline/pipeline_client.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace salvage::agent {

struct LocalPipelineOptions {
  std::string executable;  // ours: the workers run `executable stage ...`
  std::string llama_pin;
  std::string kernel_fingerprint;
  std::vector<engine::StageOptions> stages;  // in order, first to last
  wire::HiddenType hidden_type = wire::HiddenType::kF32;
  bool self_check = true;
  std::uint32_t chunk_rows = 0;  // 0: chosen from prompt and stages
  bool reuse_prefix = true;
  StageProgress progress;  // may be empty
  StopToken stop;          // ends loading with `cancelled`
};

// A loaded stage: what it is and where it runs.
struct LoadedStage {
  engine::StageFacts facts;
  bool self_checked = false;
  engine::SelfCheck check;
  std::uint64_t pid = 0;
};

class LocalPipeline {
 public:
  // Returns once every stage is loaded and linked. References outlive the object.
  static Result<std::unique_ptr<LocalPipeline>> start(const LocalPipelineOptions& options,
                                                      transport::Transport& transport,
                                                      const Clock& clock);
  ~LocalPipeline();
  LocalPipeline(const LocalPipeline&) = delete;
  LocalPipeline& operator=(const LocalPipeline&) = delete;

  pipeline::PipelineClient& client() { return *client_; }
  const pipeline::SchedulerLimits& limits() const { return limits_; }
  const std::vector<LoadedStage>& stages() const { return stages_; }
  // Counters of every stage since the start or the last reset.
  Result<std::vector<wire::Stats>> stats(bool reset);

 private:
  LocalPipeline(transport::Transport& transport, const Clock& clock);
  Result<void> launch(const LocalPipelineOptions& options);
  Result<void> load(const LocalPipelineOptions& options);
  wire::LoadStage load_order(const LocalPipelineOptions& options, std::uint32_t index) const;
  Result<void> wait_until_loaded(const LocalPipelineOptions& options);
  Result<void> link_up(const LocalPipelineOptions& options);
  pipeline::SchedulerLimits limits_for(const LocalPipelineOptions& options) const;
  wire::Hello hello(const LocalPipelineOptions& options, wire::LinkRole role) const;
  std::string socket_path(std::uint32_t index) const;
  void watch();
  std::optional<Error> find_cause();
  std::optional<Error> find_silent();
  Error explain(Error error);

  transport::Transport& transport_;
  const Clock& clock_;
  std::vector<std::unique_ptr<RunFolder>> folder_;  // one, once created
  std::string token_;
  std::unique_ptr<transport::Listener> result_listener_;
  std::vector<std::unique_ptr<WorkerLink>> workers_;
  std::vector<LoadedStage> stages_;
  pipeline::SchedulerLimits limits_;
  std::unique_ptr<transport::Connection> first_;
  std::unique_ptr<transport::Connection> results_;
  std::unique_ptr<pipeline::PipelineClient> client_;
  StopSource watch_stop_;
  std::thread watcher_;
};

}  // namespace salvage::agent
