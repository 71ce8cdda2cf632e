#pragma once

// The wish that a model be loaded: its options, whether it is wanted loaded, and where its layers
// lay when it last ran. to_json and from_json carry it to disk and to `salvage ps`; a key that is
// missing takes its default, an unknown one is ignored, so that versions can follow each other.
// Plain values. from_json fails with `invalid_argument` and the key's name.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/cache_type.h"
#include "planner/placement.h"

namespace salvage::cluster {

struct DeploymentOptions {
  std::vector<std::uint32_t> split;  // --split; empty: by memory
  std::map<NodeId, planner::Pin> pins;
  std::uint32_t context_per_sequence = 4096;  // tokens
  std::uint32_t sequence_count = 1;
  std::uint32_t rows_max = 128;
  std::uint32_t logit_rows_max = 16;
  std::uint32_t chunk_rows = 0;  // of a prompt's micro-batch; 0: chosen from prompt and stages
  CacheType cache_type_k = CacheType::kQ8_0;
  CacheType cache_type_v = CacheType::kQ8_0;
  std::string hidden_type = "f32";  // what travels between stages, by its name on the wire
  bool exact = false;
  std::uint32_t thread_count = 0;  // a stage; 0: each node's own choice
  friend bool operator==(const DeploymentOptions&, const DeploymentOptions&) = default;
};

// A stage's place when the model was last ready; before that, in its first plan.
struct HomeStage {
  NodeId node;
  std::string name;  // of the node, for messages
  LayerRange layers;
  friend bool operator==(const HomeStage&, const HomeStage&) = default;
};

struct DeploymentRecord {
  DeploymentOptions options;
  bool loaded = false;  // wanted, whatever is the case right now
  std::vector<HomeStage> home;
  friend bool operator==(const DeploymentRecord&, const DeploymentRecord&) = default;
};

std::string to_json(const DeploymentOptions& options);
Result<DeploymentOptions> options_from_json(std::string_view text);
std::string to_json(const std::vector<HomeStage>& home);
Result<std::vector<HomeStage>> home_from_json(std::string_view text);

// What the planner is asked for; the caller adds nodes and what they hold.
planner::PlacementRequest to_placement_request(const DeploymentOptions& options);

}  // namespace salvage::cluster
