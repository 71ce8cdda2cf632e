#pragma once

// Whether a sequence can be taken back to an earlier place and goes on from there with the bits
// that it had: by cutting it back where the model can, else by a saved state; in its own lane and
// in a copy of it. What lay beyond that place, this plan's tokens or others, must leave no trace.

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/stage_engine.h"
#include "run_plan.h"

namespace salvage::conformance {

inline constexpr std::uint32_t kRestoreSequences = 2;    // that the stages must have room for
inline constexpr std::uint32_t kRestoreCheckpoints = 2;  // likewise

// How the next turn of a conversation starts on these stages: "cut back", "checkpoint", "anew"
// where states can't be saved exactly, or "no cache".
std::string next_turn(std::span<engine::StageEngine* const> stages);

// Runs the plan, goes back and runs its end again, in each way that there is. Nothing if all bits
// are the same, else what differs.
std::optional<std::string> check_restore(std::span<engine::StageEngine* const> stages,
                                         const RunPlan& plan);

}  // namespace salvage::conformance
