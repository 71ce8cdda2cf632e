#pragma once

// A model that is ready to be asked, without a model: a pipeline of fake stages (fake_engine.h) in
// this process, linked by the memory transport, behind the interface by which the API reaches a
// cluster. Its text is made to be awkward: every byte is a token, so that characters come in
// pieces, and some answers are no characters at all. A stage can be held, so that a test decides
// when work goes on.
//
// Threads: everything from any thread. Ends its threads when destroyed, after all that uses it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/cluster_pipeline.h"
#include "engine/stage_engine.h"
#include "gateway/serving_backend.h"
#include "pipeline/stage_server.h"
#include "transport/memory_transport.h"

namespace salvage::sim {

struct FakeServingOptions {
  std::uint32_t stage_count = 3;
  std::uint32_t sequence_count = 4;
  std::uint32_t context = 500;  // tokens of a sequence
  std::uint32_t rows_max = 16;
  std::uint32_t gated_stage = 0;
  std::optional<std::string> script = {};  // what every answer says (fake_text.h)
};

// Lets micro-batches through, all of them or one by one.
class StepGate {
 public:
  void hold();              // from the next one on
  void let(std::size_t n);  // of those that are held
  void open();              // all, from now on
  void pass();              // waits until it may go on
  std::size_t passed() const;
  // Until so many have passed. False if that takes too long.
  bool wait_passed(std::size_t count) const;

 private:
  mutable Mutex mutex_;
  mutable Condition changed_;
  bool held_ GUARDED_BY(mutex_) = false;
  std::size_t allowed_ GUARDED_BY(mutex_) = 0;
  std::size_t passed_ GUARDED_BY(mutex_) = 0;
};

class FakeServing final : public gateway::ServingBackend {
 public:
  explicit FakeServing(const FakeServingOptions& options = {});
  ~FakeServing() override;

  std::vector<api::ModelEntry> models() override;
  Result<gateway::ReadyModel> ready(const std::string& model) override;
  metrics::ClusterGlance glance() override { return {}; }

  // Before each micro-batch that the gated stage computes.
  StepGate& gate() { return gate_; }
  // Steps that stage `index` has computed, and rows in them.
  wire::Stats stats(std::size_t index) { return servers_.at(index)->stats(false); }
  std::size_t stage_count() const { return servers_.size(); }
  std::uint32_t running() const { return pipeline_->running(); }  // answers, begun or about to be
  // Requests that the pipeline has, whether begun or not.
  std::size_t asked() const { return pipeline_->client().request_count(); }
  // Tokens that a sequence holds, as far as the pipeline knows.
  std::uint32_t held_tokens(std::size_t sequence) const {
    return pipeline_->client().sequences().at(sequence).tokens;
  }
  const Clock& clock() const { return clock_; }

 private:
  coordinator::PipelineOrder order() const;
  void make_links();
  void make_pipeline();
  void start_stages();

  const FakeServingOptions options_;
  SteadyClock clock_;
  StepGate gate_;
  std::unique_ptr<transport::Transport> transport_;
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::vector<std::unique_ptr<transport::Connection>> upstream_;
  std::vector<std::unique_ptr<transport::Connection>> downstream_;
  std::vector<std::unique_ptr<engine::StageEngine>> engines_;
  std::vector<std::unique_ptr<pipeline::StageServer>> servers_;
  std::vector<std::thread> threads_;
  std::shared_ptr<coordinator::ClusterPipeline> pipeline_;
};

}  // namespace salvage::sim
