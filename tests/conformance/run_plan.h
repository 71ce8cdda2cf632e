#pragma once

// What every fixture is asked: a prompt longer than its attention window, in chunks, then single
// tokens. The tokens are random and fixed, so that a wrong answer can't change what comes next.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace salvage::conformance {

inline constexpr std::size_t kPromptTokens = 48;  // The fixtures' windows are of 32.
inline constexpr std::size_t kSingleSteps = 10;
inline constexpr std::size_t kPositions = kPromptTokens + kSingleSteps;

struct RunPlan {
  std::vector<TokenId> tokens;      // kPositions of them
  std::vector<std::size_t> groups;  // rows of each micro-batch, in order; they add up to kPositions
};

// The prompt in chunks of `chunk_tokens`, then one by one.
RunPlan make_run_plan(std::uint32_t vocabulary_size, std::size_t chunk_tokens, std::uint64_t seed);

// The same tokens all in chunks, as a replay of what is known has them.
RunPlan make_replay_plan(const RunPlan& plan, std::size_t chunk_tokens);

}  // namespace salvage::conformance
