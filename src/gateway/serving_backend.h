#pragma once

// What the API needs of the program behind it: which models are served, and a pipeline that is
// ready for one. Threads: any number of calls at once; each may wait for the coordinator, none for
// a peer. The pipeline in a ReadyModel stays usable for as long as it is held; once its stages are
// gone, requests on it fail with why.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/models.h"
#include "base/result.h"
#include "coordinator/cluster_pipeline.h"
#include "metrics/glance_json.h"

namespace salvage::gateway {

struct ReadyModel {
  std::string name;
  std::shared_ptr<coordinator::ClusterPipeline> pipeline;
  std::vector<std::string> machines;  // of its stages, in order
};

class ServingBackend {
 public:
  virtual ~ServingBackend() = default;
  virtual std::vector<api::ModelEntry> models() = 0;
  // `not_found`: no such model; `unavailable`: not ready, with why. Empty: the only one loaded.
  virtual Result<ReadyModel> ready(const std::string& model) = 0;
  virtual metrics::ClusterGlance glance() = 0;
};

}  // namespace salvage::gateway
