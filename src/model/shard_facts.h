#pragma once

// What a shard says about itself. A shard is an ordinary GGUF file that upstream's tools open;
// these facts stand in it as extra metadata under `salvage.` and tell the engine how to feed the
// shard and where its hidden states leave. A GGUF without `salvage.shard.version` is a whole model.
// Plain values; read with read_shard_facts() in model/shard.h.

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace salvage::model {

inline constexpr std::uint32_t kShardVersion = 1;

// How hidden states enter a shard.
enum class ShardInput {
  kHidden,   // An embedding batch: rows of `row_width_in` floats.
  kTokens,   // A token batch: the shard embeds the ids itself (first shard only).
  kReplace,  // A token batch whose tensor `replace_tensor` is overwritten with the rows (bloom,
             // cogvlm).
};

// A GGML_OP_SCALE of the graph that libllama would derive from the shard's own layer count, or from
// the kind of batch, and that must multiply by `scale` instead. It is the node named `tensor`, or,
// if `behind`, the unnamed scale node whose source is named so ("Qcur-3"). Set it before the node
// runs.
struct ScalePatch {
  std::string tensor;
  bool behind = false;
  float scale = 1.0F;
  friend bool operator==(const ScalePatch&, const ScalePatch&) = default;
};

struct ShardFacts {
  std::string architecture;       // general.architecture of the model
  std::string model_digest;       // hex; the same for all shards of one model
  LayerRange layers;              // in the whole model
  std::uint32_t layer_count = 0;  // of the whole model, without nextn layers
  ShardInput input = ShardInput::kHidden;
  std::string replace_tensor;                // only with kReplace
  std::vector<std::string> unscale_tensors;  // graph tensors whose GGML_OP_SCALE must be 1.0 here
  std::vector<ScalePatch> scale_patches;     // the same for other factors than 1.0
  std::string output_tensor;  // graph tensor that leaves, "l_out-7"; empty in the last shard
  // Floats a row that enters, 0 with kTokens. More than the embedding table's width in the first
  // shard of models with deepstack (Qwen3-VL): the rest of the row is zero for text.
  std::uint32_t row_width_in = 0;
  std::uint32_t row_width_out = 0;    // floats a row that leaves, 0 in the last shard
  std::uint32_t vocabulary_size = 0;  // of the whole model

  bool first() const { return layers.begin == 0; }
  bool last() const { return layers.end == layer_count; }
};

}  // namespace salvage::model
