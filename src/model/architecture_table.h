#pragma once

// The table of what we know about cutting each architecture of llama.cpp v0.4.0: where a cut is
// legal and what must be changed in a shard so that it computes bit for bit what those layers
// compute in the whole model. One row an architecture; architecture.cc turns a row and a file into
// SplitRules, shard_plan.cc into metadata and tensors. The conformance suite (tests/conformance)
// proves each row; docs/reference/architectures.md is its outcome.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace salvage::model {

enum class Proof {
  kProven,     // Bit-exact at every legal cut, by the conformance suite.
  kCandidate,  // Has rules but no proof yet: runs whole only, unless the suite asks.
  kRefused,    // Known not to be exact, or no rules; `reason` says so. Runs whole only.
  kNoModel,    // Not a model that answers prompts: `reason` says what it is.
};

// Cuts are legal at multiples of all of an architecture's steps.
struct CutStep {
  std::string_view key;           // "<arch>." is put before it; empty = always `otherwise`
  std::uint32_t otherwise = 1;    // if the file lacks the key, or has an array there
  bool only_with_window = false;  // counts only if attention.sliding_window is above 0
};

// How an architecture's layers differ in what they keep in memory: libllama wants at least one of
// each kind in every context.
enum class LayerKinds : std::uint8_t {
  kAlike,
  kNoHeadsRecurrent,       // attention.head_count_kv[i] == 0
  kNoHeadsNoFfnRecurrent,  // the same, and feed_forward_length[i] == 0; others have no cache
  kIntervalRecurrent,      // attention.recurrent_layers[i], else all but every n-th
  kSparseNeeded,           // at least one layer behind leading_dense_block_count
  kWindowArray,            // attention.sliding_window_pattern[i]
};

// What is done to shards. Zeroing and dropping concern shards that are not the first.
enum Treatment : std::uint32_t {
  kZeroEmbeddingScale = 1U << 0,    // <arch>.embedding_scale = 0
  kWriteResidualScale = 1U << 1,    // every shard: its default is 1.4 / sqrt(layer count)
  kZeroPositionTable = 1U << 2,     // position_embd.weight stays, all zero
  kDropPositionTable = 1U << 3,     // position_embd.weight is optional and left out
  kScalarHeadCount = 1U << 4,       // every shard: head size comes from head_count of layer 0
  kWriteRecurrentLayers = 1U << 5,  // every shard: an array in place of an interval
  kDropDeepstack = 1U << 6,         // n_deepstack_layers = 0
  kDropDeepstackMap = 1U << 7,      // every shard: no layer takes image features
  kUnscaleInput = 1U << 8,          // graph scale `scaled_input` becomes 1
  kScaleFirstInput = 1U << 9,       // first shard: graph scale `scaled_input` = sqrt(row width)
  kReplaceInput = 1U << 10,         // rows are written over graph tensor `replace_tensor`
  kFirstTakesTokens = 1U << 11,     // first shard embeds the ids itself
  kScaleResidualPatch = 1U << 12,   // every shard: `hidden_scaled*` = 1.4 / sqrt(layer count)
  kScaleQueryPatch = 1U << 13,      // every shard: the scale behind `Qcur` (Gemma 27B)
  kLiteByLayerCount = 1U << 14,     // every shard: deepseek2's "lite" and its gating function
  kWriteIndexerTypes = 1U << 15,    // every shard: an array in place of built-in types
  kTailSharesCache = 1U << 16,      // layers of the tail read caches of earlier ones (gemma4)
};

struct ArchitectureRow {
  std::string_view name;
  Proof proof = Proof::kProven;
  std::string_view reason = {};
  std::uint32_t treatments = 0;
  std::array<CutStep, 3> steps = {};
  LayerKinds kinds = LayerKinds::kAlike;
  std::string_view output_tensor = "l_out";  // "-<layer>" is put behind it unless ...
  bool output_numbered = true;               // ... the last layer's output has a name of its own
  std::string_view scaled_input = "inp_scaled";  // graph scale of kUnscaleInput, kScaleFirstInput
  std::string_view replace_tensor = {};
  // libllama takes these layer counts for another model size and computes differently: a model
  // that has one cannot be cut, and no stage may have one by accident.
  std::array<std::uint32_t, 2> special_counts = {};
  std::uint32_t special_counts_from = 0;  // the same for all counts from here on; 0 = none
};

std::span<const ArchitectureRow> architecture_table();

// Nothing for an architecture that v0.4.0 cannot load.
const ArchitectureRow* find_architecture(std::string_view name);

}  // namespace salvage::model
