#include "coordinator/cluster_pipeline.h"

#include <chrono>
#include <utility>

#include "pipeline/handshake.h"

namespace salvage::coordinator {
namespace {

constexpr auto kDialTime = std::chrono::seconds(10);

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
  options.explain = [broken = known.broken](Error error) {
    broken(error);
    return error;
  };
  pipeline->client_ = std::make_unique<pipeline::PipelineClient>(
      *pipeline->first_, *pipeline->results_, clock, options);
  return pipeline;
}

}  // namespace salvage::coordinator
