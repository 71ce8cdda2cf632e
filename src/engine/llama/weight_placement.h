#pragma once

// Which kernels a shard's matrices get, and what that means for bits.
//
// ggml repacks matrices of some types at load into interleaved rows with faster kernels. Those of
// Q4_0, Q8_0 and IQ4_NL give a row the same bits alone and in company; those of Q4_K (AVX2)
// and Q2_K (AVX-512) do not: they compute rows by four and the remaining one to three differently.
// Of types that only other instruction sets repack nothing is proven. So an exact stage keeps all
// of these out of the repacked buffer, by name. IQ types (all but IQ4_NL) have another kernel from
// eight rows on, repacked or not: for them the stage says how many rows a micro-batch may have.
// llama_stage_test.cc proves this type by type, self_check() on every stage's own weights.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stage_engine.h"
#include "model/gguf.h"

namespace salvage::engine {

struct WeightPlacement {
  bool repack = true;                // False: no tensor is repacked.
  std::vector<std::string> plain;    // Patterns of tensors that stay unpacked; only if `repack`.
  std::uint32_t rows_exact_max = 0;  // 0 = any
};

WeightPlacement place_weights(std::span<const model::TensorInfo> tensors,
                              std::string_view architecture, const StageOptions& options);

// Whether a whole model may be run exactly at no cost worth naming: at most a fifth of the bytes
// that its matrices hold would leave the repacked buffer (measured: Qwen2.5 0.5B in Q4_K_M, 17 %,
// loses 2 % of prefill and nothing of decode), and no type limits the rows of a micro-batch.
// Decided on the model and not on each shard, for all stages must place a tensor as one machine
// would.
bool exact_is_free(std::span<const model::TensorInfo> tensors);

}  // namespace salvage::engine
