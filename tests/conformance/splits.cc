#include "splits.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <fmt/format.h>

namespace salvage::conformance {
namespace {

void extend(std::uint32_t begin, std::uint32_t layer_count, std::size_t stages_left, Split& made,
            std::vector<Split>& all) {
  if (stages_left == 1) {
    made.push_back({begin, layer_count});
    all.push_back(made);
    made.pop_back();
    return;
  }
  for (std::uint32_t end = begin + 1; end + stages_left - 1 <= layer_count; ++end) {
    made.push_back({begin, end});
    extend(end, layer_count, stages_left - 1, made, all);
    made.pop_back();
  }
}

}  // namespace

std::string split_name(const Split& split) {
  std::string name;
  for (const LayerRange& range : split) {
    name += fmt::format("{}{}", name.empty() ? "" : "+", range.count());
  }
  return name;
}

std::vector<Split> all_splits(std::uint32_t layer_count, std::size_t stage_count) {
  std::vector<Split> all;
  if (layer_count < stage_count) return all;
  Split made;
  extend(0, layer_count, stage_count, made, all);
  return all;
}

std::vector<Split> choose_splits(std::vector<Split> splits, std::size_t count_max,
                                 std::uint64_t seed) {
  if (splits.size() <= count_max) return splits;
  std::vector<std::size_t> order(splits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random() % (i + 1)]);
  order.resize(count_max);
  std::sort(order.begin(), order.end());
  std::vector<Split> chosen;
  for (const std::size_t index : order) chosen.push_back(splits[index]);
  return chosen;
}

}  // namespace salvage::conformance
