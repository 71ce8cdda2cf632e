#include "planner/placement.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/placement_search.h"
#include "planner/split.h"

namespace salvage::planner {
namespace {

constexpr std::uint64_t kReserveBytes = std::uint64_t{128} << 20;
constexpr std::uint64_t kReserveShare = 20;

std::string gib(std::uint64_t bytes) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  const double value = static_cast<double>(bytes) / kGib;
  return value < 0.1 ? fmt::format("{:.0f} MiB", value * 1024.0) : fmt::format("{:.1f} GiB", value);
}

std::vector<bool> layers_in(const LayersByNode& by_node, const NodeId& node, std::uint32_t count) {
  std::vector<bool> in(count, false);
  const auto found = by_node.find(node);
  if (found == by_node.end()) return in;
  for (const LayerRange& range : found->second) {
    for (std::uint32_t i = range.begin; i < std::min(range.end, count); ++i) in[i] = true;
  }
  return in;
}

// Bytes of the layers that are not `in`, summed up. The tables at both ends count with their layer.
std::vector<std::uint64_t> bytes_outside(const model::Manifest& manifest,
                                         const std::vector<bool>& in) {
  std::vector<std::uint64_t> before(manifest.layer_count + 1, 0);
  for (std::uint32_t i = 0; i < manifest.layer_count; ++i) {
    std::uint64_t bytes = manifest.layers[i].weight_bytes;
    if (i == 0) bytes += manifest.embedding_bytes;
    if (i + 1 == manifest.layer_count) bytes += manifest.output_bytes;
    before[i + 1] = before[i] + (in[i] ? 0 : bytes);
  }
  return before;
}

// A request made ready for searches: pins resolved, nodes without memory left out.
class Placer {
 public:
  static Result<Placer> make(const model::Manifest& manifest, const PlacementRequest& request) {
    Placer placer(manifest, request);
    RETURN_IF_ERROR(placer.check());
    RETURN_IF_ERROR(placer.resolve_pins());
    return placer;
  }

  Result<Placement> place() const {
    const Attempt attempt = prepare(request_->need.context_per_sequence);
    if (const auto found = search(attempt, true)) return result(attempt, *found);
    const auto wanted = search(attempt, false);
    if (!wanted && !attempt.lacks_memory) return impossible(attempt);
    return does_not_fit(attempt, wanted.value_or(std::vector<Assigned>{}));
  }

  std::uint32_t largest_context() const {
    std::uint32_t fits = 0;
    std::uint32_t too_much = request_->need.context_per_sequence / kContextStep + 1;
    while (fits + 1 < too_much) {
      const std::uint32_t middle = fits + (too_much - fits) / 2;
      (search(prepare(middle * kContextStep), true) ? fits : too_much) = middle;
    }
    return fits * kContextStep;
  }

 private:
  struct Attempt {
    StageNeeds needs;
    std::vector<Candidate> candidates;
    std::vector<LeftOut> left_out;
    bool lacks_memory = false;  // some of those were left out for want of it
  };

  Placer(const model::Manifest& manifest, const PlacementRequest& request)
      : manifest_(&manifest), request_(&request), legal_(manifest, {}) {}

  Result<void> check() const;
  Result<void> resolve_pins();
  Result<void> resolve_split();
  Result<void> check_pins() const;
  std::string name_of(const NodeId& node) const;
  Attempt prepare(std::uint32_t context) const;
  std::optional<std::vector<Assigned>> search(const Attempt& attempt, bool heed_memory) const {
    return find_placement(attempt.candidates, attempt.needs, legal_,
                          {.heed_memory = heed_memory, .keep = request_->keep});
  }
  std::optional<std::string> refusal_of(const NodeRoom& room, std::uint64_t smallest) const;
  void set_quotas(const StageNeeds& needs, std::vector<Candidate>& candidates) const;
  Placement result(const Attempt& attempt, const std::vector<Assigned>& assigned) const;
  std::string reason_without_layers(const Candidate& candidate) const;
  tl::unexpected<Error> does_not_fit(const Attempt& attempt,
                                     const std::vector<Assigned>& wanted) const;
  tl::unexpected<Error> impossible(const Attempt& attempt) const;

  const model::Manifest* manifest_;
  const PlacementRequest* request_;
  std::map<NodeId, Pin> pins_;
  LegalStages legal_;
};

std::uint64_t usable_bytes(const NodeRoom& room) {
  const std::uint64_t memory = room.memory_bytes.value_or(0);
  const std::uint64_t reserve = room.reserve_bytes.value_or(default_reserve(memory));
  return memory > reserve ? memory - reserve : 0;
}

std::string names_of(const std::vector<NodeRoom>& nodes) {
  std::vector<std::string_view> names;
  names.reserve(nodes.size());
  for (const NodeRoom& room : nodes) names.push_back(room.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<void> Placer::check() const {
  if (manifest_->layer_count == 0) {
    return fail(ErrorCode::kInvalidArgument, "the model has no layers");
  }
  if (request_->nodes.empty()) {
    return fail(ErrorCode::kUnavailable, "no node is online that could take layers");
  }
  if (request_->nodes.size() > kPlacementNodesMax) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} nodes; a pipeline has at most {} stages, name the nodes with --split",
                    request_->nodes.size(), kPlacementNodesMax));
  }
  if (!request_->split.empty() && !request_->pins.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--split and --pin both say where layers go; give one of them");
  }
  return {};
}

Result<void> Placer::resolve_pins() {
  if (request_->split.empty()) {
    pins_ = request_->pins;
  } else {
    RETURN_IF_ERROR(resolve_split());
  }
  RETURN_IF_ERROR(check_pins());
  std::vector<LayerRange> ranges;
  for (const auto& [node, pin] : pins_) {
    if (pin.layers) ranges.push_back(*pin.layers);
  }
  if (!ranges.empty()) legal_ = LegalStages(*manifest_, ranges);
  return {};
}

Result<void> Placer::resolve_split() {
  const auto& split = request_->split;
  if (split.size() > request_->nodes.size()) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("--split has {} numbers, but {} nodes are online: {}", split.size(),
                            request_->nodes.size(), names_of(request_->nodes)));
  }
  std::vector<std::uint32_t> shares;
  std::copy_if(split.begin(), split.end(), std::back_inserter(shares),
               [](std::uint32_t share) { return share != 0; });
  ASSIGN_OR_RETURN(const auto stages, plan_split(*manifest_, shares));
  std::size_t stage = 0;
  for (std::size_t i = 0; i < request_->nodes.size(); ++i) {
    Pin& pin = pins_[request_->nodes[i].node];
    if (i < split.size() && split[i] != 0) {
      pin.layers = stages[stage++];
      pin.layer_count = pin.layers->count();
    }
  }
  return {};
}

std::string Placer::name_of(const NodeId& node) const {
  const auto known = request_->names.find(node);
  return known == request_->names.end() ? "node " + node.value.substr(0, 12) : known->second;
}

Result<void> Placer::check_pins() const {
  std::vector<LayerRange> ranges;
  for (const auto& [node, pin] : pins_) {
    const bool online =
        std::any_of(request_->nodes.begin(), request_->nodes.end(),
                    [&node = node](const NodeRoom& room) { return room.node == node; });
    if (!online && (pin.layers || pin.layer_count > 0)) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("{} has pinned layers, but is not online", name_of(node)));
    }
    if (!pin.layers) continue;
    RETURN_IF_ERROR(manifest_->split.check_stage(*pin.layers));
    for (const LayerRange& other : ranges) {
      if (pin.layers->begin < other.end && other.begin < pin.layers->end) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("layers {}:{} and {}:{} are pinned and overlap", other.begin,
                                other.end, pin.layers->begin, pin.layers->end));
      }
    }
    ranges.push_back(*pin.layers);
  }
  return {};
}

// Why a node can't take part at all.
std::optional<std::string> Placer::refusal_of(const NodeRoom& room, std::uint64_t smallest) const {
  if (!room.memory_bytes) return "its free memory is unknown";
  const auto pin = pins_.find(room.node);
  if (pin != pins_.end()) {
    if (pin->second.layers || pin->second.layer_count > 0) return std::nullopt;
    return request_->split.empty() ? "it is pinned to no layers" : "--split gives it no layers";
  }
  if (usable_bytes(room) >= smallest) return std::nullopt;
  return fmt::format("{} of its memory can be used, the smallest stage needs {}",
                     gib(usable_bytes(room)), gib(smallest));
}

Placer::Attempt Placer::prepare(std::uint32_t context) const {
  MemoryRequest need = request_->need;
  need.context_per_sequence = context;
  Attempt attempt{.needs = StageNeeds(*manifest_, need)};
  const std::uint64_t smallest = legal_.smallest(attempt.needs);
  for (const NodeRoom& room : request_->nodes) {
    if (auto reason = refusal_of(room, smallest)) {
      attempt.lacks_memory = attempt.lacks_memory || !pins_.contains(room.node);
      attempt.left_out.push_back({room.node, room.name, std::move(*reason)});
      continue;
    }
    Candidate candidate;
    candidate.room = &room;
    candidate.usable_bytes = usable_bytes(room);
    if (const auto pin = pins_.find(room.node); pin != pins_.end()) candidate.pin = pin->second;
    std::vector<bool> in = layers_in(request_->held, room.node, manifest_->layer_count);
    candidate.fetch_before = bytes_outside(*manifest_, in);
    in = layers_in(request_->current, room.node, manifest_->layer_count);
    candidate.moved_before = bytes_outside(*manifest_, in);
    attempt.candidates.push_back(std::move(candidate));
  }
  set_quotas(attempt.needs, attempt.candidates);
  return attempt;
}

// The layers that no pin takes, in proportion to memory.
void Placer::set_quotas(const StageNeeds& needs, std::vector<Candidate>& candidates) const {
  double layers = manifest_->layer_count;
  double memory = 0;
  for (const Candidate& candidate : candidates) {
    if (!candidate.pin) {
      memory += static_cast<double>(candidate.usable_bytes);
    } else if (candidate.pin->layers) {
      layers -= static_cast<double>(needs.size(*candidate.pin->layers)) / needs.mean_size();
    } else {
      layers -= candidate.pin->layer_count;
    }
  }
  for (Candidate& candidate : candidates) {
    if (candidate.pin || memory == 0) continue;
    candidate.quota = std::max(layers, 0.0) * static_cast<double>(candidate.usable_bytes) / memory;
  }
}

std::string Placer::reason_without_layers(const Candidate& candidate) const {
  if (request_->keep) return "the layers stay where they are";
  if (candidate.quota < 1) {
    return fmt::format("its share of the memory is {:.2f} of a layer", candidate.quota);
  }
  return "the legal cuts of this model leave no stage for it";
}

Placement Placer::result(const Attempt& attempt, const std::vector<Assigned>& assigned) const {
  Placement placement;
  placement.left_out = attempt.left_out;
  std::vector<bool> used(attempt.candidates.size(), false);
  for (const Assigned& stage : assigned) {
    const Candidate& candidate = attempt.candidates[stage.candidate];
    used[stage.candidate] = true;
    placement.stages.push_back({.node = candidate.room->node,
                                .name = candidate.room->name,
                                .layers = stage.layers,
                                .need = attempt.needs.exact(stage.layers),
                                .usable_bytes = candidate.usable_bytes,
                                .fetch_bytes = candidate.fetch_bytes(stage.layers),
                                .checkpoint_count = request_->need.checkpoint_count});
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    const Candidate& candidate = attempt.candidates[i];
    placement.left_out.push_back(
        {candidate.room->node, candidate.room->name, reason_without_layers(candidate)});
  }
  return placement;
}

tl::unexpected<Error> Placer::does_not_fit(const Attempt& attempt,
                                           const std::vector<Assigned>& wanted) const {
  std::vector<std::string> lines;
  bool disk = false;
  for (const Assigned& stage : wanted) {
    const Candidate& candidate = attempt.candidates[stage.candidate];
    const std::uint64_t need = attempt.needs.total_bytes(stage.layers);
    const std::uint64_t fetch = candidate.fetch_bytes(stage.layers);
    std::string line =
        fmt::format("{} needs {} of memory for layers {}:{} and has {}", candidate.room->name,
                    gib(need), stage.layers.begin, stage.layers.end, gib(candidate.usable_bytes));
    if (candidate.room->disk_bytes && fetch > *candidate.room->disk_bytes) {
      disk = true;
      line +=
          fmt::format(", and {} of disk and has {}", gib(fetch), gib(*candidate.room->disk_bytes));
    }
    lines.push_back(std::move(line));
  }
  for (const LeftOut& node : attempt.left_out) {
    lines.push_back(fmt::format("{}: {}", node.name, node.reason));
  }
  const std::uint32_t context = largest_context();
  std::string advice;
  if (context > 0) {
    advice = fmt::format("a context of {} tokens would fit (--ctx {})", context, context);
  } else if (disk) {
    advice = "free disk space there, or place layers elsewhere with --pin";
  } else {
    advice = "no context is short enough; add a machine or choose a smaller quantisation";
  }
  return fail(ErrorCode::kResourceExhausted,
              fmt::format("the model does not fit with a context of {} tokens: {}; {}",
                          request_->need.context_per_sequence, fmt::join(lines, "; "), advice));
}

// Not even with endless memory: the pins say so, or the cuts.
tl::unexpected<Error> Placer::impossible(const Attempt& attempt) const {
  std::string text =
      fmt::format("these pins leave no legal placement of the model's {} layers on {} nodes",
                  manifest_->layer_count, attempt.candidates.size());
  if (!manifest_->split.splittable()) text += ": " + manifest_->split.refusal;
  const auto cuts = manifest_->split.cuts();
  if (!cuts.empty()) text += fmt::format("; legal cuts: {}", fmt::join(cuts, " "));
  return fail(ErrorCode::kInvalidArgument, text + "; give other pins, or none");
}

}  // namespace

std::uint64_t default_reserve(std::uint64_t memory_bytes) {
  return kReserveBytes + memory_bytes / kReserveShare;
}

std::uint64_t Placement::fetch_bytes() const {
  return std::accumulate(
      stages.begin(), stages.end(), std::uint64_t{0},
      [](std::uint64_t sum, const PlacedStage& stage) { return sum + stage.fetch_bytes; });
}

Result<Placement> place(const model::Manifest& manifest, const PlacementRequest& request) {
  PlacementRequest attempt = request;
  for (;; attempt.need.checkpoint_count /= 2) {
    ASSIGN_OR_RETURN(const Placer placer, Placer::make(manifest, attempt));
    Result<Placement> placement = placer.place();
    const bool lacks_memory =
        !placement && placement.error().code() == ErrorCode::kResourceExhausted;
    if (!lacks_memory || attempt.need.checkpoint_count == 0) return placement;
  }
}

std::uint32_t largest_context_that_fits(const model::Manifest& manifest,
                                        const PlacementRequest& request) {
  const auto placer = Placer::make(manifest, request);
  return placer ? placer->largest_context() : 0;
}

}  // namespace salvage::planner
