// Layers are placed by an exact search over all legal placements, as split.cc does it for stages,
// with nodes in place of stage numbers: the best placement of the first i nodes that ends before
// layer b is the best of the first i-1 nodes that ends before some a <= b, plus the stage [a, b) on
// node i, or nothing on it if a = b. For N nodes and L layers that is N L^2 / 2 steps; 64 nodes and
// 512 layers take 8 million.
//
// What is best? Each node has a quota: its share of the usable memory, in layers. The sum of
// squared distances from the quotas is least for what statistics calls the largest-remainder
// method: 10 layers for quotas 4.74 and 5.26 are 5 and 5, quotas of 0.75 on eight nodes give six of
// them a layer. Floors that drift, as they do where every node is rounded for itself, can't happen,
// since the layers always add up. The search never takes a stage that the node's memory doesn't
// hold, so where memory is tight the result is the nearest that fits, and if there is none there is
// none. Layers of unequal size count by their bytes. Costs are whole numbers, so that equal ones
// tie on every machine; a tie goes to the earlier nodes.
//
// A model that already ran is placed to move as little as possible; then bytes to fetch come first
// and the distance last.
//
// Pinned ranges need no place in the order of nodes: where one begins, nothing else can, so it is a
// jump from its begin to its end that any state may take and none may cross. --split is a pinned
// range for each node.
//
// Rejected: filling nodes greedily up to their share. With legal cuts at multiples of six only, the
// last node gets what is left, which is twice its share or more than it has.

#include "planner/placement_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace salvage::planner {
namespace {

// Distances count in millionths of a squared layer: 512 layers squared still leave 24 bits.
constexpr double kDistanceUnit = 1e6;

struct PlacementCost {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t third = 0;
  friend auto operator<=>(const PlacementCost&, const PlacementCost&) = default;
  friend PlacementCost operator+(const PlacementCost& a, const PlacementCost& b) {
    return {a.first + b.first, a.second + b.second, a.third + b.third};
  }
};

class PlacementSearch {
 public:
  PlacementSearch(const std::vector<Candidate>& candidates, const StageNeeds& needs,
                  const LegalStages& legal, SearchOptions options)
      : candidates_(candidates),
        needs_(needs),
        legal_(legal),
        options_(options),
        layer_count_(needs.layer_count()) {}

  std::optional<std::vector<Assigned>> run() {
    rows_.assign(1, std::vector<Cell>(layer_count_ + 1));
    rows_[0][0].reachable = true;
    jump(rows_[0]);
    for (std::size_t i = 0; i < candidates_.size(); ++i) extend(i);
    if (!rows_.back()[layer_count_].reachable) return std::nullopt;
    return trace();
  }

 private:
  enum class Step { kNone, kTook, kSkipped, kJumped };
  struct Cell {
    bool reachable = false;
    PlacementCost cost;
    Step step = Step::kNone;
    std::size_t candidate = 0;
    std::uint32_t begin = 0;
  };

  bool fits(const Candidate& candidate, LayerRange layers) const {
    if (!options_.heed_memory) return true;
    const auto& disk = candidate.room->disk_bytes;
    return needs_.total_bytes(layers) <= candidate.usable_bytes &&
           (!disk || candidate.fetch_bytes(layers) <= *disk);
  }

  PlacementCost cost_of(const Candidate& candidate, LayerRange layers) const {
    double off = 0;
    if (!candidate.pin) {
      off = static_cast<double>(needs_.size(layers)) / needs_.mean_size() - candidate.quota;
    }
    const auto distance = static_cast<std::uint64_t>(std::llround(off * off * kDistanceUnit));
    const std::uint64_t fetch = candidate.fetch_bytes(layers);
    const std::uint64_t moved = candidate.moved_bytes(layers);
    return options_.keep ? PlacementCost{fetch, moved, distance}
                         : PlacementCost{distance, fetch, moved};
  }

  // Of equals the later found: begins rise, so it leaves more to the nodes before.
  static void relax(Cell& to, const Cell& found) {
    if (!to.reachable || found.cost <= to.cost) to = found;
  }

  void extend(std::size_t index) {
    const Candidate& candidate = candidates_[index];
    rows_.emplace_back(layer_count_ + 1);
    const std::vector<Cell>& from = rows_[rows_.size() - 2];
    std::vector<Cell>& to = rows_.back();
    for (std::uint32_t begin = 0; begin <= layer_count_; ++begin) {
      if (!from[begin].reachable) continue;
      if (!candidate.pin || candidate.has_range()) {
        const PlacementCost cost = from[begin].cost + cost_of(candidate, {begin, begin});
        relax(to[begin], {true, cost, Step::kSkipped, index, begin});
      }
      if (!candidate.has_range()) take(index, from[begin], begin, to);
    }
    jump(to);
  }

  void take(std::size_t index, const Cell& from, std::uint32_t begin, std::vector<Cell>& to) const {
    const Candidate& candidate = candidates_[index];
    std::uint32_t first = begin + 1;
    std::uint32_t last = layer_count_;
    if (candidate.pin) {
      if (candidate.pin->layer_count > layer_count_ - begin) return;
      first = last = begin + candidate.pin->layer_count;
    }
    for (std::uint32_t end = first; end <= last; ++end) {
      if (!fits(candidate, {begin, end})) return;  // nor would more layers
      if (!legal_.contains({begin, end})) continue;
      const PlacementCost cost = from.cost + cost_of(candidate, {begin, end});
      relax(to[end], {true, cost, Step::kTook, index, begin});
    }
  }

  // Pinned ranges, by rising begin, so that one may follow another.
  void jump(std::vector<Cell>& row) const {
    for (std::uint32_t begin = 0; begin < layer_count_; ++begin) {
      if (!row[begin].reachable) continue;
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const Candidate& candidate = candidates_[i];
        if (!candidate.has_range() || candidate.pin->layers->begin != begin) continue;
        const LayerRange layers = *candidate.pin->layers;
        if (!fits(candidate, layers)) continue;
        const PlacementCost cost = row[begin].cost + cost_of(candidate, layers);
        relax(row[layers.end], {true, cost, Step::kJumped, i, begin});
      }
    }
  }

  std::vector<Assigned> trace() const {
    std::vector<Assigned> assigned;
    std::size_t row = rows_.size() - 1;
    std::uint32_t end = layer_count_;
    while (row > 0 || end > 0) {
      const Cell& cell = rows_[row][end];
      if (cell.step != Step::kSkipped) assigned.push_back({cell.candidate, {cell.begin, end}});
      if (cell.step != Step::kJumped) --row;
      end = cell.begin;
    }
    std::reverse(assigned.begin(), assigned.end());
    return assigned;
  }

  const std::vector<Candidate>& candidates_;
  const StageNeeds& needs_;
  const LegalStages& legal_;
  SearchOptions options_;
  std::uint32_t layer_count_;
  std::vector<std::vector<Cell>> rows_;  // [nodes so far][end]
};

}  // namespace

StageNeeds::StageNeeds(const model::Manifest& manifest, const MemoryRequest& request)
    : manifest_(&manifest), request_(request), before_(manifest.layer_count + 1, 0) {
  for (std::uint32_t i = 0; i < manifest.layer_count; ++i) {
    before_[i + 1] = before_[i] + layer_bytes(i);
  }
  const std::uint32_t last = manifest.layer_count - 1;
  fixed_ = exact({0, 1}).total_bytes() - layer_bytes(0);
  fixed_last_ = exact({last, last + 1}).total_bytes() - layer_bytes(last);
}

MemoryNeed StageNeeds::exact(LayerRange layers) const {
  MemoryRequest request = request_;
  request.layers = layers;
  return memory_needed(*manifest_, request);
}

std::uint64_t StageNeeds::layer_bytes(std::uint32_t layer) const {
  return manifest_->layers[layer].weight_bytes + exact({layer, layer + 1}).cache_bytes;
}

LegalStages::LegalStages(const model::Manifest& manifest, const std::vector<LayerRange>& pinned)
    : legal_(manifest.layer_count, std::vector<bool>(manifest.layer_count + 1, false)) {
  for (std::uint32_t begin = 0; begin < manifest.layer_count; ++begin) {
    for (std::uint32_t end = begin + 1; end <= manifest.layer_count; ++end) {
      const bool crosses = std::any_of(pinned.begin(), pinned.end(), [&](LayerRange pin) {
        return begin < pin.end && pin.begin < end;
      });
      if (crosses) break;
      legal_[begin][end] = manifest.split.check_stage({begin, end}).has_value();
    }
  }
}

std::uint64_t LegalStages::smallest(const StageNeeds& needs) const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t begin = 0; begin < legal_.size(); ++begin) {
    const auto first = std::find(legal_[begin].begin(), legal_[begin].end(), true);
    if (first == legal_[begin].end()) continue;
    const auto end = static_cast<std::uint32_t>(first - legal_[begin].begin());
    least = std::min(least, needs.total_bytes({begin, end}));
  }
  return least;
}

std::optional<std::vector<Assigned>> find_placement(const std::vector<Candidate>& candidates,
                                                    const StageNeeds& needs,
                                                    const LegalStages& legal,
                                                    SearchOptions options) {
  return PlacementSearch(candidates, needs, legal, options).run();
}

}  // namespace salvage::planner
