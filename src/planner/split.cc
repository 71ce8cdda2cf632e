// The best split into S stages ending at layer b is the best split into S-1 stages ending at some
// a < b, plus the stage [a, b): dynamic programming over (stages, end), with the legality of every
// stage [a, b) worked out once. For L layers it takes L^2 checks and S L^2 steps: 5 million for 80
// layers and 8 stages would be generous, and a model has at most 512 layers.
//
// Three costs use the same search. Balance: first the largest stage, then the sum of squares,
// because the slowest stage sets a pipeline's pace and among equals an even split is kinder. It
// comes twice, because the output matrix makes decode and prefill disagree: a prompt needs it once,
// every decoded token again, and it may weigh as much as half the layers (SmolLM2: 14 of 30). Even
// layers make prompts fast; even bytes serve many streams. The choice: the best split for prompts
// that keeps at least kDecodeShareMin of the best split's decode throughput. One stream's decode
// passes all stages in turn and is the same for every split. Distance: the sum of how far each cut
// is from where it is wanted.
//
// Rejected: greedy filling up to the average. It's simpler, but with cuts only at multiples of six
// it leaves the last stage with twice the average or with nothing.

#include "planner/split.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace salvage::planner {
namespace {

// A fifth of the throughput of many streams is what an even split of the layers may cost.
constexpr double kDecodeShareMin = 0.8;

struct Cost {
  double first = 0;
  double second = 0;
  friend auto operator<=>(const Cost&, const Cost&) = default;
};

// The cost of `before` with the stage [begin, end) as number `stage` behind it.
using AddStage = std::function<Cost(const Cost& before, std::uint32_t stage, LayerRange layers)>;

class Search {
 public:
  Search(const model::Manifest& manifest, std::uint32_t stage_count_max, const AddStage& add)
      : layer_count_(manifest.layer_count) {
    const std::uint32_t stages = std::min(stage_count_max, layer_count_);
    find_legal(manifest);
    cells_.assign(stages + 1, std::vector<Cell>(layer_count_ + 1));
    cells_[0][0].reachable = true;
    for (std::uint32_t stage = 0; stage < stages; ++stage) extend(stage, add);
  }

  bool possible(std::uint32_t stage_count) const {
    return stage_count < cells_.size() && cells_[stage_count][layer_count_].reachable;
  }

  std::vector<LayerRange> best(std::uint32_t stage_count) const {
    std::vector<LayerRange> stages(stage_count);
    std::uint32_t end = layer_count_;
    for (std::uint32_t stage = stage_count; stage > 0; --stage) {
      const std::uint32_t begin = cells_[stage][end].begin;
      stages[stage - 1] = {begin, end};
      end = begin;
    }
    return stages;
  }

 private:
  struct Cell {
    bool reachable = false;
    Cost cost;
    std::uint32_t begin = 0;  // of the last stage
  };

  void find_legal(const model::Manifest& manifest) {
    legal_.assign(layer_count_, std::vector<bool>(layer_count_ + 1, false));
    for (std::uint32_t begin = 0; begin < layer_count_; ++begin) {
      for (std::uint32_t end = begin + 1; end <= layer_count_; ++end) {
        legal_[begin][end] = manifest.split.check_stage({begin, end}).has_value();
      }
    }
  }

  void extend(std::uint32_t stage, const AddStage& add) {
    for (std::uint32_t begin = 0; begin < layer_count_; ++begin) {
      const Cell& from = cells_[stage][begin];
      if (!from.reachable) continue;
      for (std::uint32_t end = begin + 1; end <= layer_count_; ++end) {
        if (!legal_[begin][end]) continue;
        const Cost cost = add(from.cost, stage, {begin, end});
        Cell& to = cells_[stage + 1][end];
        if (!to.reachable || cost < to.cost) to = {true, cost, begin};
      }
    }
  }

  std::uint32_t layer_count_;
  std::vector<std::vector<bool>> legal_;
  std::vector<std::vector<Cell>> cells_;  // [stages so far][end]
};

// What each stage computes, in bytes of weights: for a decoded token all of them, for a prompt's
// token all but the head, which only the prompt's last token needs.
class StageBytes {
 public:
  explicit StageBytes(const model::Manifest& manifest)
      : before_(manifest.layer_count + 1, 0), head_(static_cast<double>(manifest.output_bytes)) {
    for (std::uint32_t i = 0; i < manifest.layer_count; ++i) {
      before_[i + 1] = before_[i] + static_cast<double>(manifest.layers[i].weight_bytes) + 1.0;
    }
  }
  double prefill(LayerRange layers) const { return before_[layers.end] - before_[layers.begin]; }
  double decode(LayerRange layers) const {
    return prefill(layers) + (layers.end + 1 == before_.size() ? head_ : 0);
  }

 private:
  std::vector<double> before_;  // a prefix sum, so that a stage's bytes cost nothing to look up
  double head_;
};

AddStage balance_decode(const StageBytes& bytes) {
  return [&bytes](const Cost& before, std::uint32_t, LayerRange layers) {
    const double own = bytes.decode(layers);
    return Cost{std::max(before.first, own), before.second + own * own};
  };
}

// As even as possible for prompts, among the splits whose slowest stage decodes in `decode_max`.
AddStage balance_prefill(const StageBytes& bytes, double decode_max) {
  return [&bytes, decode_max](const Cost& before, std::uint32_t, LayerRange layers) {
    const bool too_slow = bytes.decode(layers) > decode_max;
    const double own = too_slow ? std::numeric_limits<double>::infinity() : bytes.prefill(layers);
    return Cost{std::max(before.first, own), before.second + own * own};
  };
}

AddStage distance(std::span<const std::uint32_t> shares, std::uint32_t layer_count) {
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<double> wanted;
  double sum = 0;
  for (const std::uint32_t share : shares) {
    sum += share;
    wanted.push_back(sum / total * layer_count);
  }
  return [wanted = std::move(wanted)](const Cost& before, std::uint32_t stage, LayerRange layers) {
    const double off = std::abs(wanted[stage] - layers.end);
    return Cost{before.first + off, before.second + off * off};
  };
}

tl::unexpected<Error> impossible(const model::Manifest& manifest, const Search& search,
                                 std::uint32_t wanted) {
  std::uint32_t nearest = 1;
  for (std::uint32_t n = 1; n <= manifest.layer_count; ++n) {
    if (search.possible(n) && std::abs(static_cast<int>(n) - static_cast<int>(wanted)) <
                                  std::abs(static_cast<int>(nearest) - static_cast<int>(wanted))) {
      nearest = n;
    }
  }
  std::string reason = fmt::format("this {} of {} layers cannot be cut into {} stages",
                                   manifest.architecture, manifest.layer_count, wanted);
  if (!manifest.split.splittable()) reason += ": " + manifest.split.refusal;
  if (nearest == 1) {
    return fail(ErrorCode::kInvalidArgument, reason + "; the nearest legal split is --stages 1");
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}; the nearest legal split is --split {} (legal cuts: {})", reason,
                          split_text(search.best(nearest)), fmt::join(manifest.split.cuts(), " ")));
}

Result<void> check_count(std::size_t stage_count) {
  if (stage_count == 0 || stage_count > kStageCountMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} stages; from 1 to {} are possible", stage_count, kStageCountMax));
  }
  return {};
}

Result<std::vector<LayerRange>> exact_split(const model::Manifest& manifest, const Search& search,
                                            std::span<const std::uint32_t> counts) {
  std::vector<LayerRange> stages;
  std::uint32_t begin = 0;
  for (const std::uint32_t count : counts) {
    stages.push_back({begin, begin + count});
    begin += count;
  }
  auto legal = manifest.split.check_split(stages);
  if (legal) return stages;
  const auto stage_count = static_cast<std::uint32_t>(counts.size());
  if (!search.possible(stage_count)) return impossible(manifest, search, stage_count);
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}; the nearest legal split is --split {}", legal.error().message(),
                          split_text(search.best(stage_count))));
}

}  // namespace

Result<std::vector<LayerRange>> plan_split(const model::Manifest& manifest,
                                           std::uint32_t stage_count) {
  RETURN_IF_ERROR(check_count(stage_count));
  const StageBytes bytes(manifest);
  // All counts at once, so that the nearest possible one is known if this one isn't.
  const Search decode(manifest, kStageCountMax, balance_decode(bytes));
  if (!decode.possible(stage_count)) return impossible(manifest, decode, stage_count);
  double slowest = 0;
  for (const LayerRange& stage : decode.best(stage_count)) {
    slowest = std::max(slowest, bytes.decode(stage));
  }
  const AddStage add = balance_prefill(bytes, slowest / kDecodeShareMin);
  return Search(manifest, stage_count, add).best(stage_count);
}

Result<std::vector<LayerRange>> plan_split(const model::Manifest& manifest,
                                           std::span<const std::uint32_t> shares) {
  RETURN_IF_ERROR(check_count(shares.size()));
  if (std::find(shares.begin(), shares.end(), 0U) != shares.end()) {
    return fail(ErrorCode::kInvalidArgument, "a stage with a share of 0 would have no layers");
  }
  const auto stage_count = static_cast<std::uint32_t>(shares.size());
  const Search search(manifest, stage_count, distance(shares, manifest.layer_count));
  const std::uint64_t sum = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  if (sum == manifest.layer_count) return exact_split(manifest, search, shares);
  if (!search.possible(stage_count)) return impossible(manifest, search, stage_count);
  return search.best(stage_count);
}

std::string split_text(std::span<const LayerRange> stages) {
  std::vector<std::uint32_t> counts;
  for (const LayerRange& stage : stages) counts.push_back(stage.count());
  return fmt::format("{}", fmt::join(counts, ","));
}

}  // namespace salvage::planner
