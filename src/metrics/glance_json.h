#pragma once

// The cluster and its requests at a glance, for pages and for `salvage top`: bodies of GET
// /v1/cluster and GET /v1/requests. Who may look at them needn't be trusted with more, so there is
// no address, no key's fingerprint and no word of a prompt in them. Keys are stable; a figure that
// nobody knows is left out. Pure functions, any thread.

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "coordinator/cluster_info.h"
#include "metrics/request_ledger.h"

namespace salvage::metrics {

struct ClusterGlance {
  coordinator::ClusterInfo cluster;
  std::vector<coordinator::DeploymentInfo> deployments;
  std::vector<coordinator::ModelInfo> models;
};

nlohmann::ordered_json to_json(const ClusterGlance& glance);
nlohmann::ordered_json to_json(const RequestRecord& record);
// {"object": "list", "data": [...], and how many of them wait, are read and are answered}
nlohmann::ordered_json requests_json(std::span<const RequestRecord> records);

}  // namespace salvage::metrics
