#pragma once

// Chooses which layers each stage gets. A pure function of the model's manifest and what is asked
// for; machines of different speed come in as shares. The search is exact over all legal splits
// (model/architecture.h SplitRules), so what it says is impossible is impossible.
// Failure: `invalid_argument` with the nearest split that is legal, ready to be typed.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/manifest.h"

namespace salvage::planner {

inline constexpr std::uint32_t kStageCountMax = 64;

// `stage_count` stages with layers as equal (in bytes) as the legal cuts allow, so that prompts are
// read fast, as long as the output matrix in the last stage costs many streams at most a fifth of
// the decode throughput that the best split would give them.
Result<std::vector<LayerRange>> plan_split(const model::Manifest& manifest,
                                           std::uint32_t stage_count);

// One stage a share. Shares that add up to the layer count are layer counts and are taken exactly
// or refused; others are proportions, rounded to the nearest legal cuts.
Result<std::vector<LayerRange>> plan_split(const model::Manifest& manifest,
                                           std::span<const std::uint32_t> shares);

// "6,6,18", as --split takes it.
std::string split_text(std::span<const LayerRange> stages);

}  // namespace salvage::planner
