#pragma once

// Proves at load, on this stage's own weights, that a state can be saved and comes back: states
// have one size, and rows give the same bits before and after. Whatever doesn't pass has no
// checkpoints and computes prompts from their beginning, which is slow and right.

#include <cstdint>

#include <llama.h>

#include "base/result.h"
#include "engine/llama/checkpoint_store.h"
#include "engine/stage_engine.h"

namespace salvage::engine {

// Room for `count` states if they pass, else for none. `engine` runs in `context`, and its sequence
// 0 is empty before and after. Fails only if a step does.
Result<CheckpointStore> prove_checkpoints(StageEngine& engine, llama_context* context,
                                          std::uint32_t count);

}  // namespace salvage::engine
