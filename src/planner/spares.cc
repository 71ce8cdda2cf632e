// A node that is lost takes its layers along. Its neighbours in the pipeline take over with the
// least change: the one before grows at its end, the one behind at its beginning. So the first half
// of a stage is kept by the stage before and the second half by the one behind, each layer on its
// own where room is short, and by nodes further off where neither has any.

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "planner/placement.h"

namespace salvage::planner {
namespace {

class SpareChooser {
 public:
  SpareChooser(const model::Manifest& manifest, const Placement& placement,
               std::map<NodeId, std::uint64_t> disk_bytes, const LayersByNode& held)
      : manifest_(manifest), placement_(placement), room_(std::move(disk_bytes)), held_(held) {
    for (const PlacedStage& stage : placement.stages) nodes_.push_back(stage.node);
    for (const auto& [node, bytes] : room_) add_outsider(node);
    for (const auto& [node, ranges] : held_) add_outsider(node);
  }

  std::vector<Spare> choose() {
    for (std::size_t stage = 0; stage < placement_.stages.size(); ++stage) {
      const LayerRange layers = placement_.stages[stage].layers;
      for (std::uint32_t i = layers.begin; i < layers.end; ++i) {
        const bool first_half = 2 * (i - layers.begin) < layers.count();
        choose_for(i, stage, first_half);
      }
    }
    return std::move(spares_);
  }

 private:
  void add_outsider(const NodeId& node) {
    if (std::find(nodes_.begin(), nodes_.end(), node) == nodes_.end()) nodes_.push_back(node);
  }

  std::uint64_t bytes_of(std::uint32_t layer) const {
    std::uint64_t bytes = manifest_.layers[layer].weight_bytes;
    if (layer == 0) bytes += manifest_.embedding_bytes;
    if (layer + 1 == manifest_.layer_count) bytes += manifest_.output_bytes;
    return bytes;
  }

  bool holds(const NodeId& node, std::uint32_t layer) const {
    const auto found = held_.find(node);
    return found != held_.end() &&
           std::any_of(found->second.begin(), found->second.end(), [layer](LayerRange range) {
             return range.begin <= layer && layer < range.end;
           });
  }

  // All nodes but the stage's own: those that have the layer, then the nearest in the pipeline.
  std::vector<NodeId> by_preference(std::uint32_t layer, std::size_t stage, bool first_half) const {
    std::vector<std::pair<std::pair<std::size_t, std::size_t>, NodeId>> ranked;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (i == stage) continue;
      const bool before = i < stage;
      const bool inside = i < placement_.stages.size();
      // Outside the pipeline there is no near and far: behind all that are inside.
      const std::size_t distance =
          !inside ? 2 * nodes_.size() + i
                  : 2 * (before ? stage - i : i - stage) + (before == first_half ? 0 : 1);
      ranked.push_back({{holds(nodes_[i], layer) ? 0U : 1U, distance}, nodes_[i]});
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<NodeId> nodes;
    nodes.reserve(ranked.size());
    for (auto& [rank, node] : ranked) nodes.push_back(std::move(node));
    return nodes;
  }

  void choose_for(std::uint32_t layer, std::size_t stage, bool first_half) {
    for (const NodeId& node : by_preference(layer, stage, first_half)) {
      const std::uint64_t bytes = holds(node, layer) ? 0 : bytes_of(layer);
      const auto room = room_.find(node);
      if (bytes > 0 && (room == room_.end() || room->second < bytes)) continue;
      if (bytes > 0) room->second -= bytes;
      add(node, layer, bytes);
      return;
    }
  }

  // Layers come in rising order, so a node's last spare is the one that may grow.
  void add(const NodeId& node, std::uint32_t layer, std::uint64_t bytes) {
    const auto last = std::find_if(spares_.rbegin(), spares_.rend(),
                                   [&](const Spare& spare) { return spare.node == node; });
    if (last != spares_.rend() && last->layers.end == layer) {
      last->layers.end = layer + 1;
      last->bytes += bytes;
    } else {
      spares_.push_back({node, {layer, layer + 1}, bytes});
    }
  }

  const model::Manifest& manifest_;
  const Placement& placement_;
  std::map<NodeId, std::uint64_t> room_;
  const LayersByNode& held_;
  std::vector<NodeId> nodes_;  // stages in order, then the others
  std::vector<Spare> spares_;
};

}  // namespace

std::vector<Spare> choose_spares(const model::Manifest& manifest, const Placement& placement,
                                 const std::map<NodeId, std::uint64_t>& disk_bytes,
                                 const LayersByNode& held) {
  return SpareChooser(manifest, placement, disk_bytes, held).choose();
}

}  // namespace salvage::planner
