#include "planner/memory.h"

#include <algorithm>

namespace salvage::planner {
namespace {

// Work buffers: a micro-batch keeps some dozen rows as wide as the hidden state or as the widest
// feed-forward layer (four times that) alive at once, plus attention over the context in f32 and a
// fixed part for graphs and threads. An estimate: the engine reports what it really took.
constexpr std::uint64_t kRowsAlive = 24;
constexpr std::uint64_t kWorkBytesFixed = std::uint64_t{48} << 20;
constexpr std::uint64_t kFloatBytes = 4;

constexpr std::uint64_t kCheckpointsPerSequence = 8;
constexpr std::uint64_t kCheckpointsMax = 128;
constexpr std::uint64_t kCheckpointShare = 8;  // of the weights
constexpr std::uint64_t kCheckpointBytesMin = std::uint64_t{64} << 20;

std::uint64_t round_up(std::uint64_t tokens) {
  return (tokens + kContextStep - 1) / kContextStep * kContextStep;
}

}  // namespace

MemoryNeed memory_needed(const model::Manifest& manifest, const MemoryRequest& request) {
  MemoryNeed need;
  need.weight_bytes = manifest.stage_bytes(request.layers);
  const std::uint64_t context = round_up(request.context_per_sequence);
  // Layers with an attention window keep all tokens too: the engine asks libllama for it, so that a
  // sequence can be cut back exactly.
  for (std::uint32_t i = request.layers.begin; i < request.layers.end; ++i) {
    const model::LayerFacts& layer = manifest.layers[i];
    need.cache_bytes += request.sequence_count *
                            (context * layer.cache_bytes_per_token(request.keys, request.values) +
                             layer.state_bytes) +
                        request.checkpoint_count * layer.state_bytes;
  }
  const std::uint64_t row_bytes = kFloatBytes * (kRowsAlive * manifest.embedding_length + context);
  need.work_bytes = kWorkBytesFixed + request.rows_max * row_bytes;
  if (request.layers.end == manifest.layer_count) {
    need.work_bytes += request.logit_rows_max * manifest.vocabulary_size * kFloatBytes;
  }
  return need;
}

std::uint32_t checkpoints_wanted(const model::Manifest& manifest, std::uint32_t sequence_count) {
  if (manifest.can_trim) return 0;
  std::uint64_t state_bytes = 0;
  for (const model::LayerFacts& layer : manifest.layers) state_bytes += layer.state_bytes;
  if (state_bytes == 0) return 0;  // what they take is not known
  const std::uint64_t room = std::max(
      kCheckpointBytesMin, manifest.stage_bytes({0, manifest.layer_count}) / kCheckpointShare);
  return static_cast<std::uint32_t>(
      std::min({kCheckpointsPerSequence * sequence_count, kCheckpointsMax, room / state_bytes}));
}

std::uint32_t largest_context_that_fits(const model::Manifest& manifest, MemoryRequest request,
                                        std::uint64_t bytes_available) {
  std::uint32_t fits = 0;
  std::uint32_t too_much = request.context_per_sequence / kContextStep + 1;
  while (fits + 1 < too_much) {
    const std::uint32_t middle = fits + (too_much - fits) / 2;
    request.context_per_sequence = middle * kContextStep;
    const bool good = memory_needed(manifest, request).total_bytes() <= bytes_available;
    (good ? fits : too_much) = middle;
  }
  return fits * kContextStep;
}

}  // namespace salvage::planner
