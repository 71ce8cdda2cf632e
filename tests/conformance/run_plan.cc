#include "run_plan.h"

#include <algorithm>
#include <random>

namespace salvage::conformance {

RunPlan make_run_plan(std::uint32_t vocabulary_size, std::size_t chunk_tokens, std::uint64_t seed) {
  RunPlan plan;
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < kPositions; ++i) {
    plan.tokens.push_back(static_cast<TokenId>(random() % vocabulary_size));
  }
  for (std::size_t begin = 0; begin < kPromptTokens; begin += chunk_tokens) {
    plan.groups.push_back(std::min(chunk_tokens, kPromptTokens - begin));
  }
  plan.groups.insert(plan.groups.end(), kSingleSteps, 1);
  return plan;
}

RunPlan make_replay_plan(const RunPlan& plan, std::size_t chunk_tokens) {
  RunPlan replay{plan.tokens, {}};
  for (std::size_t begin = 0; begin < kPositions; begin += chunk_tokens) {
    replay.groups.push_back(std::min(chunk_tokens, kPositions - begin));
  }
  return replay;
}

}  // namespace salvage::conformance
