#pragma once

// Puts a model's layers on the nodes of a cluster: which node holds which layers, what that costs
// it in memory, and which nodes are left out and why. A pure function; how it chooses stands in
// placement.cc. Nothing is ever placed on a node that has no memory for it: weights, KV cache for
// the full context, work buffers, and a reserve.
// Failure: `invalid_argument` for a split or pin that can't be, with what could;
// `resource_exhausted` if the model doesn't fit, with need and have of each node and the longest
// context that would fit. texts like "6,6,4,2" and "pi-3=4:8" come from a user and fail likewise.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/manifest.h"
#include "planner/memory.h"

namespace salvage::planner {

inline constexpr std::size_t kPlacementNodesMax = 64;

struct NodeRoom {
  NodeId node;
  std::string name;  // for messages
  // What may be used now, plus what the stages take that this placement replaces. Unknown is not
  // zero: such a node is left out by name.
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> reserve_bytes;  // kept free of it; unset: default_reserve()
  std::optional<std::uint64_t> disk_bytes;     // for layers that it doesn't hold; unset: no limit
};

// 128 MiB and a twentieth: what else runs there may grow a little.
std::uint64_t default_reserve(std::uint64_t memory_bytes);

// What --pin fixes of a node: how many layers, or exactly which.
struct Pin {
  std::uint32_t layer_count = 0;  // 0: the node gets none
  std::optional<LayerRange> layers;
  friend bool operator==(const Pin&, const Pin&) = default;
};

using LayersByNode = std::map<NodeId, std::vector<LayerRange>>;

struct PlacementRequest {
  std::vector<NodeRoom> nodes;  // the coordinator's first; stages follow this order
  MemoryRequest need;           // `layers` is not read
  // --split: one number a node, in the order of `nodes`; 0 leaves a node out. Numbers that add up
  // to the layer count are layer counts, others are proportions. Empty: by memory.
  std::vector<std::uint32_t> split;
  std::map<NodeId, Pin> pins;           // not together with `split`
  std::map<NodeId, std::string> names;  // of nodes that are pinned and not there, for messages
  LayersByNode held;                    // layers whose weights a node already has
  LayersByNode current;                 // the placement to depart from
  // True: move as little as can be, for a model that ran and shall run again. False: closest to the
  // memory's proportions, and among equals what moves least.
  bool keep = false;
};

struct PlacedStage {
  NodeId node;
  std::string name;
  LayerRange layers;
  MemoryNeed need;
  std::uint64_t usable_bytes = 0;      // of the node's memory, without the reserve
  std::uint64_t fetch_bytes = 0;       // of layers that the node doesn't hold
  std::uint32_t checkpoint_count = 0;  // for which `need` has room; the same for all stages
  friend bool operator==(const PlacedStage&, const PlacedStage&) = default;
};

struct LeftOut {
  NodeId node;
  std::string name;
  std::string reason;
  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

struct Placement {
  std::vector<PlacedStage> stages;  // in pipeline order; each node at most once
  std::vector<LeftOut> left_out;
  std::uint64_t fetch_bytes() const;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Where the model doesn't fit otherwise, `need.checkpoint_count` is halved until it does.
Result<Placement> place(const model::Manifest& manifest, const PlacementRequest& request);

// The longest context, in steps of 256 tokens up to the request's, with which place() succeeds; 0
// if there is none.
std::uint32_t largest_context_that_fits(const model::Manifest& manifest,
                                        const PlacementRequest& request);

inline constexpr std::uint32_t kContextDefault = 4096;  // tokens
// A chat, and what its client asks beside it: a title, tags, the next questions.
inline constexpr std::uint32_t kSequencesDefault = 4;

struct AnswerSizes {
  std::uint32_t context_per_sequence = 0;
  std::uint32_t sequence_count = 0;
  friend bool operator==(const AnswerSizes&, const AnswerSizes&) = default;
};
// A 0 in `request.need` is open: the context becomes what the model was trained for, at most
// kContextDefault, and the sequences kSequencesDefault, fewer where memory is short. The context
// goes before the sequences: who waits is served later, who doesn't fit never.
AnswerSizes choose_sizes(const model::Manifest& manifest, PlacementRequest request);

// The placement as --split takes it, one number for each of `nodes`: "6,6,0,6".
std::string split_text(const Placement& placement, std::span<const NodeRoom> nodes);

// "6,6,4,2".
Result<std::vector<std::uint32_t>> parse_split(std::string_view text);

struct NamedPin {
  std::string node;  // name or id, as typed
  Pin pin;
};
// "pi-3=4" or "pi-3=4:8".
Result<NamedPin> parse_pin(std::string_view text);

// A copy of layers that a node keeps on disk only, so that another node's loss moves no weights.
// One that begins at layer 0 includes the embedding table, one that ends with the last layer the
// output matrix.
struct Spare {
  NodeId node;
  LayerRange layers;
  std::uint64_t bytes = 0;  // 0 for what the node holds already
  friend bool operator==(const Spare&, const Spare&) = default;
};

// A second home for every layer where there is disk room for it; a layer's spare is never on the
// node that runs it. The neighbours in the pipeline come first: they take over when a node is lost.
std::vector<Spare> choose_spares(const model::Manifest& manifest, const Placement& placement,
                                 const std::map<NodeId, std::uint64_t>& disk_bytes,
                                 const LayersByNode& held);

}  // namespace salvage::planner
