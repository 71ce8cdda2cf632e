#pragma once

// Which ways of cutting a fixture are compared: every legal cut in two, and a seeded choice of
// those in three and four (all of them where there are few).

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace salvage::conformance {

// Layer ranges of the stages, in order.
using Split = std::vector<LayerRange>;

// "3+5" for {0,3},{3,8}: layers of each stage.
std::string split_name(const Split& split);

// All splits of `layer_count` layers into `stage_count` stages.
std::vector<Split> all_splits(std::uint32_t layer_count, std::size_t stage_count);

// At most `count_max` of them, chosen by `seed`, in their old order.
std::vector<Split> choose_splits(std::vector<Split> splits, std::size_t count_max,
                                 std::uint64_t seed);

}  // namespace salvage::conformance
