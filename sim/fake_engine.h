#pragma once

// A StageEngine without a model: its hidden state is a running hash of (layer, position, token, and
// everything in the sequence's cache), so the final value proves that each layer ran exactly once,
// in order, on the right cache. Thousands of steps a second, no libllama.
// Thread rule and failures: as engine/stage_engine.h.

#include <memory>
#include <vector>

#include "engine/stage_engine.h"

namespace salvage::sim {

inline constexpr std::uint32_t kFakeRowWidth = 4;  // 16 bits of the hash in each float: exact
inline constexpr std::uint32_t kFakeVocabulary = 50;

struct FakeStage {
  LayerRange layers;
  std::uint32_t layer_count = 0;
  std::uint32_t fail_at_run = 0;  // the n-th run fails with `internal`; 0: none does
  bool recurrent = false;         // can't trim; saves and restores as many states as it is told
};

std::unique_ptr<engine::StageEngine> make_fake_engine(const FakeStage& stage,
                                                      const engine::StageOptions& options);

}  // namespace salvage::sim
