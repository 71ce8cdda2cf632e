#include "coordinator/cluster_pipeline.h"

#include <chrono>
#include <utility>

#include "cluster/deployment.h"
#include "pipeline/handshake.h"

namespace salvage::coordinator {
namespace {

constexpr auto kDialTime = std::chrono::seconds(10);
// For the cause of a broken link: the deployment waits for one itself, and then says so anyway.
constexpr auto kCauseTime = 3 * cluster::kCauseWait;

}  // namespace

Result<std::shared_ptr<ClusterPipeline>> ClusterPipeline::connect(
    PipelineOrder order, std::unique_ptr<transport::Connection> results,
    transport::Transport& transport, const Clock& clock) {
  std::shared_ptr<ClusterPipeline> pipeline(new ClusterPipeline(std::move(order)));
  const PipelineOrder& known = pipeline->order_;
  ASSIGN_OR_RETURN(auto dialed, pipeline::dial_any(transport, known.first, known.hello,
                                                   deadline_after(clock.now(), kDialTime)));
  pipeline->first_ = std::move(dialed.connection);
  pipeline->results_ = std::move(results);
  pipeline::PipelineClientOptions options;
  options.epoch = known.epoch;
  options.limits = known.limits;
  options.position_planes = known.position_planes;
  options.vocabulary_size = known.vocabulary_size;
  options.explain = [raw = pipeline.get()](Error error) { return raw->explain(std::move(error)); };
  pipeline->client_ = std::make_unique<pipeline::PipelineClient>(
      *pipeline->first_, *pipeline->results_, clock, options);
  return pipeline;
}

ClusterPipeline::~ClusterPipeline() {
  tell(Error(ErrorCode::kCancelled, "the pipeline was closed"));
  client_.reset();  // before what its threads use
}

void ClusterPipeline::fail_all(const Error& error) {
  client_->fail_all(error);
  tell(error);
}

void ClusterPipeline::tell(const Error& cause) {
  {
    MutexLock lock(mutex_);
    if (!cause_) cause_ = cause;
  }
  told_.notify_all();
}

Error ClusterPipeline::explain(Error error) {
  order_.broken(error);
  const TimePoint until = deadline_after(SteadyClock().now(), kCauseTime);
  MutexLock lock(mutex_);
  while (!cause_ && told_.wait_until(mutex_, until)) {
  }
  return cause_ ? *cause_ : std::move(error);
}

}  // namespace salvage::coordinator
