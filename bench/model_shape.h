#pragma once

// The list of tensors of a random model: names, sizes and types for a shape given by numbers. The
// mix of quantisation types is the one that upstream's quantiser would choose without an importance
// matrix, so that a random file computes and weighs what a real one does. Pure values, no files.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <ggml.h>
#include <llama.h>

#include "base/result.h"

namespace salvage::bench {

struct ModelShape {
  std::string architecture = "qwen3";
  std::int64_t layer_count = 28;
  std::int64_t embedding_width = 2048;
  std::int64_t head_count = 16;
  std::int64_t kv_head_count = 8;
  std::int64_t head_width = 128;
  std::int64_t feed_forward_width = 6144;
  std::int64_t vocabulary_size = 0;
  std::int64_t context_length = 40960;
  bool tied_embeddings = true;
};

// How an architecture differs from plain llama; one row a supported name.
struct ArchitectureTraits {
  std::string_view name;
  bool qk_norm;         // attn_q_norm, attn_k_norm
  bool qkv_bias;        // attn_{q,k,v}.bias
  bool rope_dimension;  // writes <arch>.rope.dimension_count
};

// What a quantisation by upstream's name chooses for each role of a tensor.
struct TypeMix {
  std::string_view name;
  llama_ftype file_type;
  ggml_type base;
  ggml_type output;  // the output matrix, or a tied embedding table
  ggml_type attention_output;
};

enum class Fill { kMatrix, kNorm, kBias };

struct PlannedTensor {
  std::string name;
  std::array<std::int64_t, 2> size;  // columns (fan-in) first, as ggml counts
  ggml_type type;
  Fill fill;
};

Result<ArchitectureTraits> find_architecture(std::string_view name);
Result<TypeMix> find_type_mix(std::string_view name);

// Fails with a sentence when a width cannot be computed with (heads, multiples of 32).
Result<std::vector<PlannedTensor>> plan_tensors(const ModelShape& shape, const TypeMix& mix);

}  // namespace salvage::bench
