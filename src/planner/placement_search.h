#pragma once

// The search behind placement.h: which of all legal placements is best. Internal to planner/. The
// method stands at the top of placement_search.cc.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "model/manifest.h"
#include "planner/memory.h"
#include "planner/placement.h"

namespace salvage::planner {

// memory_needed() of any range in constant time.
class StageNeeds {
 public:
  StageNeeds(const model::Manifest& manifest, const MemoryRequest& request);

  MemoryNeed exact(LayerRange layers) const;
  std::uint64_t total_bytes(LayerRange layers) const {
    return size(layers) + (layers.end == manifest_->layer_count ? fixed_last_ : fixed_);
  }
  // Weights and cache of the layers themselves.
  std::uint64_t size(LayerRange layers) const {
    return before_[layers.end] - before_[layers.begin];
  }
  std::uint32_t layer_count() const { return manifest_->layer_count; }
  // Of a layer; never 0.
  double mean_size() const {
    return std::max(1.0, static_cast<double>(before_.back())) / manifest_->layer_count;
  }

 private:
  std::uint64_t layer_bytes(std::uint32_t layer) const;

  const model::Manifest* manifest_;
  MemoryRequest request_;
  std::vector<std::uint64_t> before_;  // prefix sum
  std::uint64_t fixed_ = 0;
  std::uint64_t fixed_last_ = 0;
};

// Which stages are legal and cross no pinned range.
class LegalStages {
 public:
  LegalStages(const model::Manifest& manifest, const std::vector<LayerRange>& pinned);

  bool contains(LayerRange layers) const { return legal_[layers.begin][layers.end]; }
  // The least that any legal stage needs.
  std::uint64_t smallest(const StageNeeds& needs) const;

 private:
  std::vector<std::vector<bool>> legal_;  // [begin][end]
};

// A node that may get layers.
struct Candidate {
  const NodeRoom* room = nullptr;
  std::uint64_t usable_bytes = 0;
  std::optional<Pin> pin;
  double quota = 0;                         // in layers of mean size
  std::vector<std::uint64_t> fetch_before;  // prefix sum of bytes that it doesn't hold
  std::vector<std::uint64_t> moved_before;  // and of those that are new to it in this placement

  std::uint64_t fetch_bytes(LayerRange layers) const {
    return fetch_before[layers.end] - fetch_before[layers.begin];
  }
  std::uint64_t moved_bytes(LayerRange layers) const {
    return moved_before[layers.end] - moved_before[layers.begin];
  }
  bool has_range() const { return pin && pin->layers; }
};

struct Assigned {
  std::size_t candidate = 0;
  LayerRange layers;
};

struct SearchOptions {
  bool heed_memory = true;
  bool keep = false;  // PlacementRequest::keep
};

// The best placement of all layers, in pipeline order; none if there is none.
std::optional<std::vector<Assigned>> find_placement(const std::vector<Candidate>& candidates,
                                                    const StageNeeds& needs,
                                                    const LegalStages& legal,
                                                    SearchOptions options);

}  // namespace salvage::planner
