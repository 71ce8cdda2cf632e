#pragma once

// What the coordinator tells people and programs about the cluster: plain values, a moment's copy.
// Names are for people, ids for programs; a figure that nobody knows is unset, never 0.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cluster/deployment.h"
#include "cluster/membership.h"

namespace salvage::coordinator {

struct NodeInfo {
  cluster::Member member;
  bool coordinator = false;
  std::string address;  // the one in use: "tls:192.168.1.21:40112"; empty without a link
  std::string link_type;
};

struct ClusterInfo {
  std::string name;
  std::string cluster_id;
  std::string version;
  NodeId coordinator;
  std::uint32_t lost_after_ms = 0;
  std::vector<NodeInfo> nodes;
};

// What a stage reported last; counters since it was loaded.
struct StageCounters {
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  std::uint64_t busy_us = 0;
  std::uint64_t idle_us = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t rss_bytes = 0;
  // While something was under way to the next; unset where that can't be known.
  std::optional<std::uint64_t> out_busy_us;
};

struct StageInfo {
  cluster::StageStatus status;
  std::uint64_t weights_bytes = 0;
  std::uint64_t kv_cache_bytes = 0;
  std::uint64_t compute_bytes = 0;
  std::uint64_t checkpoint_bytes = 0;  // room for saved states
  std::string kernel_fingerprint;
  bool self_checked = false;
  bool exact = false;
  std::string inexact_condition;
  std::uint64_t pid = 0;
  std::optional<StageCounters> counters;
  std::optional<double> busy;  // share of the last ten seconds
  // Share of the time, in these, in which the pipeline had work and this stage did none of it.
  // Unset while nothing is asked.
  std::optional<double> bubble;
};

// One link of a pipeline. The coordinator is where no stage is named.
struct LinkInfo {
  std::string from;  // names of machines
  std::string to;
  std::optional<StageIndex> from_stage;
  std::optional<StageIndex> to_stage;
  std::uint64_t bytes_sent = 0;  // since the plan was loaded, as its two ends count
  std::uint64_t bytes_arrived = 0;
  std::optional<double> bytes_per_second;  // in the last ten seconds
  // Share of these in which something was under way, sent and not acknowledged: 0 to 1. Unset
  // within a machine.
  std::optional<double> load;
};

struct DeploymentInfo {
  std::string model_name;
  cluster::DeploymentStatus status;
  std::vector<StageInfo> stages;              // as many as status.stages
  std::vector<LinkInfo> links;                // of a ready pipeline, once its stages have reported
  std::vector<std::string> exact_conditions;  // why bits are not promised; empty = they are
  std::uint32_t context = 0;
  std::uint32_t sequences = 0;         // answers that can be made at once
  std::uint32_t requests_running = 0;  // and waiting
  std::uint32_t requests_queued = 0;   // of these, without a sequence yet
  // Share of the last ten seconds in which a step was under way.
  std::optional<double> working;
  std::uint64_t steps = 0;  // of this plan
};

struct ModelInfo {
  ModelId model;
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t known_since_s = 0;  // Unix time; 0: not known
  std::uint32_t layer_count = 0;
  std::string architecture;
  std::string quantisation;  // the type of most weights: "q4_K"
  std::uint64_t parameter_count = 0;
  std::uint32_t context_length = 0;  // that it was trained with
  std::uint64_t vocabulary_size = 0;
  std::uint32_t hidden_size = 0;                            // of a row
  std::vector<std::pair<std::string, std::uint64_t>> held;  // by node name: bytes of its pieces
  bool complete = false;                                    // every piece is somewhere in reach
  bool loaded = false;
};

// Something happened that an owner wants to see: `code` is stable ("node_online", "node_offline",
// "node_lost", "node_joined", "node_left", "node_removed", "deployment"), the rest is for people.
struct ClusterEvent {
  std::string code;
  std::string node;   // its name
  std::string model;  // its name
  std::string state;  // of a deployment
  std::string detail;
};

}  // namespace salvage::coordinator
