#pragma once

// A ready pipeline over several machines: the two links that the coordinator has with it, and the
// client that feeds it. Shared by the answers that run on it; ends with the last of them.
// Thread rule: as PipelineClient.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/text.h"
#include "pipeline/pipeline_client.h"
#include "pipeline/scheduler_limits.h"
#include "transport/transport.h"
#include "wire/cluster.h"

namespace salvage::coordinator {

struct PipelineOrder {
  PlanEpoch epoch;
  std::vector<transport::Endpoint> first;  // of stage 0, best first
  wire::Hello hello;                       // for stage 0: token, epoch
  pipeline::SchedulerLimits limits;
  std::uint32_t position_planes = 1;
  std::uint32_t vocabulary_size = 0;
  engine::TextTools text;
  // A link ended; from a thread of the client. Whoever learns why calls fail_all().
  std::function<void(const Error&)> broken;
};

class ClusterPipeline {
 public:
  // Dials the first stage; `results` is the link that the last one has made.
  static Result<std::shared_ptr<ClusterPipeline>> connect(
      PipelineOrder order, std::unique_ptr<transport::Connection> results,
      transport::Transport& transport, const Clock& clock);

  ~ClusterPipeline();
  ClusterPipeline(const ClusterPipeline&) = delete;
  ClusterPipeline& operator=(const ClusterPipeline&) = delete;

  pipeline::PipelineClient& client() { return *client_; }
  // Every live answer, and every later one, fails with this, also if a link has ended before.
  void fail_all(const Error& error) EXCLUDES(mutex_);
  const engine::TextTools& text() const { return order_.text; }
  PlanEpoch epoch() const { return order_.epoch; }
  const pipeline::SchedulerLimits& limits() const { return order_.limits; }

  // Over our two links since they stand; for how long something was under way on the first.
  std::uint64_t bytes_out() const { return first_->bytes().out; }
  std::uint64_t bytes_in() const { return results_->bytes().in; }
  std::optional<std::uint64_t> out_busy_us() const { return first_->busy_us(); }

  // Counts one answer for as long as the result lives.
  std::shared_ptr<void> count_running() {
    ++running_;
    return {nullptr, [this](void*) { --running_; }};
  }
  std::uint32_t running() const { return running_; }

 private:
  explicit ClusterPipeline(PipelineOrder order) : order_(std::move(order)) {}

  // What ended a link, by whoever knows; the link's own words if nobody says so in time.
  Error explain(Error error) EXCLUDES(mutex_);
  void tell(const Error& cause) EXCLUDES(mutex_);

  const PipelineOrder order_;
  std::unique_ptr<transport::Connection> first_;
  std::unique_ptr<transport::Connection> results_;
  std::unique_ptr<pipeline::PipelineClient> client_;
  std::atomic<std::uint32_t> running_ = 0;

  Mutex mutex_;
  Condition told_;
  std::optional<Error> cause_ GUARDED_BY(mutex_);
};

}  // namespace salvage::coordinator
