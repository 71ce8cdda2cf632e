#pragma once

// How much memory a stage needs, before it is started. Weights and caches are exact from the
// manifest; the work buffers are an estimate from above that the engine's own figures replace once
// it has loaded (StageFacts::memory).

#include <cstdint>

#include "base/ids.h"
#include "model/cache_type.h"
#include "model/manifest.h"

namespace salvage::planner {

// libllama rounds caches up to this many tokens.
inline constexpr std::uint32_t kContextStep = 256;

struct MemoryRequest {
  LayerRange layers;
  std::uint32_t context_per_sequence = 4096;  // tokens
  std::uint32_t sequence_count = 1;
  std::uint32_t rows_max = 128;       // of one micro-batch
  std::uint32_t logit_rows_max = 16;  // last stage only
  CacheType keys = CacheType::kQ8_0;
  CacheType values = CacheType::kQ8_0;
  std::uint32_t checkpoint_count =
      0;  // saved states of recurrent layers, beside the sequences' own
};

struct MemoryNeed {
  std::uint64_t weight_bytes = 0;
  std::uint64_t cache_bytes = 0;  // keys, values, states and checkpoints
  std::uint64_t work_bytes = 0;
  std::uint64_t total_bytes() const { return weight_bytes + cache_bytes + work_bytes; }
  friend bool operator==(const MemoryNeed&, const MemoryNeed&) = default;
};

// request.layers must lie within the model.
MemoryNeed memory_needed(const model::Manifest& manifest, const MemoryRequest& request);

// How many checkpoints a pipeline of this model should have room for: eight a sequence, as far as
// they stay within an eighth of its weights (or 64 MiB), 0 if it needs none. Without any, each turn
// of a conversation computes the whole of it again; eight keep the distance to the next one short.
std::uint32_t checkpoints_wanted(const model::Manifest& manifest, std::uint32_t sequence_count);

// The longest context, in steps of 256 tokens up to `request.context_per_sequence`, with which the
// stage stays within `bytes_available`; 0 if not even the shortest does.
std::uint32_t largest_context_that_fits(const model::Manifest& manifest, MemoryRequest request,
                                        std::uint64_t bytes_available);

}  // namespace salvage::planner
