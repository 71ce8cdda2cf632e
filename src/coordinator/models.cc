// Which models there are, what is loaded, and what loading one is told.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "coordinator/pipeline_links.h"
#include "coordinator/service.h"
#include "model/piece_catalogue.h"
#include "planner/placement.h"

namespace salvage::coordinator {
namespace {

StageInfo stage_info(const cluster::StageStatus& status, const Entry::Stage& known, TimePoint now) {
  StageInfo info;
  info.status = status;
  info.counters = known.counters;
  if (const auto recent = known.recent.at(now)) info.busy = recent->busy;
  if (!known.loaded) return info;
  const wire::StageLoaded& loaded = *known.loaded;
  info.weights_bytes = loaded.weights_bytes;
  info.kv_cache_bytes = loaded.kv_cache_bytes;
  info.compute_bytes = loaded.compute_bytes;
  info.checkpoint_bytes = loaded.checkpoint_count * loaded.checkpoint_bytes;
  info.kernel_fingerprint = loaded.kernel_fingerprint;
  info.self_checked = loaded.self_checked;
  info.exact = loaded.exact;
  info.inexact_condition = loaded.inexact_condition;
  info.pid = loaded.pid;
  return info;
}

// A stage that is idle while no other has work either waits for nobody.
void add_bubbles(DeploymentInfo& info) {
  if (info.working.value_or(0) <= 0) return;
  for (StageInfo& stage : info.stages) {
    if (stage.busy) stage.bubble = std::clamp(1 - *stage.busy / *info.working, 0.0, 1.0);
  }
}

// Why the answers of these stages are not promised to be one machine's, bit for bit.
void add_exact_conditions(const std::vector<StageInfo>& stages,
                          std::vector<std::string>& conditions) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageInfo& stage = stages[i];
    const std::string& name = stage.status.placed.name;
    if (stage.kernel_fingerprint.empty()) continue;  // not loaded yet
    if (!stage.self_checked || !stage.exact) {
      conditions.push_back(
          fmt::format("stage {} on {}: {}", i, name,
                      stage.self_checked ? stage.inexact_condition : "was not checked"));
    }
    if (stage.kernel_fingerprint != stages.front().kernel_fingerprint) {
      conditions.push_back(fmt::format("{} has other kernels than the first stage", name));
    }
  }
}

Error shutting_down() {
  return {ErrorCode::kUnavailable, "the coordinator is shutting down"};
}

}  // namespace

Entry& Service::entry_for(const ModelId& model) {
  auto& entry = entries_[model];
  if (!entry) {
    const std::vector<NodeId> online = membership_->online();
    entry = std::make_unique<Entry>(model, std::set<NodeId>(online.begin(), online.end()),
                                    parts_.clock.now());
    const auto known = parts_.store.entry(model);
    entry->model_name = known ? known->name : model.value.substr(0, 12);
  }
  return *entry;
}

Result<std::shared_ptr<const model::Manifest>> Service::manifest(const ModelId& model) {
  auto& known = manifests_[model];
  if (known) return known;
  ASSIGN_OR_RETURN(const auto metadata, parts_.store.metadata(model));
  ASSIGN_OR_RETURN(model::Manifest manifest, model::read_manifest(*metadata));
  known = std::make_shared<const model::Manifest>(std::move(manifest));
  return known;
}

Result<engine::TextTools> Service::text_of(const ModelId& model) {
  const auto known = texts_.find(model);
  if (known != texts_.end()) return known->second;
  ASSIGN_OR_RETURN(const auto vocabulary, parts_.store.vocabulary(model));
  ASSIGN_OR_RETURN(engine::TextTools text, options_.make_text(vocabulary));
  texts_[model] = text;
  return text;
}

// --- the catalogue -------------------------------------------------------------------------------

ModelInfo Service::info_of(const model::CatalogueEntry& entry) {
  ModelInfo info;
  info.model = entry.id();
  info.name = entry.name;
  info.bytes = entry.bytes();
  info.known_since_s = parts_.store.known_since_s(info.model).value_or(0);
  if (const auto known = manifest(info.model)) {
    const model::Manifest& facts = **known;
    info.layer_count = facts.layer_count;
    info.architecture = facts.architecture;
    if (!facts.types.empty()) info.quantisation = facts.types.front().type;
    info.parameter_count = facts.parameter_count;
    info.context_length = facts.context_length;
    info.vocabulary_size = facts.vocabulary_size;
    info.hidden_size = facts.embedding_length;
  }
  std::set<PieceDigest> somewhere;
  for (const NodeId& node : membership_->online()) {
    const std::set<PieceDigest> has = pieces_of(node, info.model);
    if (has.empty()) continue;
    std::uint64_t bytes = 0;
    for (const model::PieceEntry& piece : entry.pieces) {
      if (has.contains(piece.digest)) bytes += piece.bytes;
    }
    somewhere.insert(has.begin(), has.end());
    info.held.emplace_back(membership_->find(node)->name, bytes);
  }
  info.complete =
      std::all_of(entry.pieces.begin(), entry.pieces.end(),
                  [&](const model::PieceEntry& piece) { return somewhere.contains(piece.digest); });
  const auto loaded = entries_.find(info.model);
  info.loaded = loaded != entries_.end() && loaded->second->deployment.wanted();
  return info;
}

std::vector<ModelInfo> Service::models() {
  return loop_.call(
      [this] {
        std::vector<ModelInfo> all;
        for (const model::CatalogueEntry& entry : parts_.store.models()) {
          all.push_back(info_of(entry));
        }
        return all;
      },
      std::vector<ModelInfo>{});
}

Result<ModelId> Service::resolve_model(const std::string& name) {
  std::vector<model::CatalogueEntry> matches;
  std::string known;
  for (const model::CatalogueEntry& entry : parts_.store.models()) {
    if (entry.name == name || entry.id().value == name) return entry.id();
    known += (known.empty() ? "" : ", ") + entry.name;
    if (!name.empty() && entry.id().value.starts_with(name)) matches.push_back(entry);
  }
  if (matches.size() == 1) return matches.front().id();
  if (matches.size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is the beginning of several models' ids", name));
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("no model '{}' here{}", name,
                          known.empty() ? "; load a GGUF file first" : "; there are: " + known));
}

// --- loading -------------------------------------------------------------------------------------

Result<cluster::DeploymentOptions> Service::options_of(const LoadWish& wish) {
  cluster::DeploymentOptions options = wish.options;
  for (const std::string& text : wish.pins) {
    ASSIGN_OR_RETURN(const planner::NamedPin pin, planner::parse_pin(text));
    ASSIGN_OR_RETURN(const NodeId node, membership_->resolve(pin.node));
    options.pins[node] = pin.pin;
  }
  ASSIGN_OR_RETURN(const auto known, manifest(wish.model));
  if (!known->generation_problem.empty()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("this model cannot answer prompts: {}", known->generation_problem));
  }
  planner::PlacementRequest request = cluster::to_placement_request(options);
  for (const NodeId& node : membership_->online()) {
    request.nodes.push_back(room_of(*membership_->find(node)));
  }
  if (!wish.context_chosen) request.need.context_per_sequence = 0;
  if (!wish.sequences_chosen) request.need.sequence_count = 0;
  const planner::AnswerSizes sizes = planner::choose_sizes(*known, std::move(request));
  options.context_per_sequence = sizes.context_per_sequence;
  options.sequence_count = sizes.sequence_count;
  return options;
}

Result<void> Service::load(const LoadWish& wish) {
  const auto load = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(cluster::DeploymentOptions options, options_of(wish));
    Entry& entry = entry_for(wish.model);
    act(entry, entry.deployment.load(std::move(options)));
    return {};
  };
  return loop_.call(load, Result<void>(fail(shutting_down())));
}

Result<void> Service::unload(const ModelId& model) {
  const auto unload = [&]() -> Result<void> {
    const auto entry = entries_.find(model);
    if (entry == entries_.end() || !entry->second->deployment.wanted()) {
      return fail(ErrorCode::kNotFound, "this model is not loaded");
    }
    act(*entry->second, entry->second->deployment.unload());
    return {};
  };
  return loop_.call(unload, Result<void>(fail(shutting_down())));
}

Result<void> Service::remove_model(const ModelId& model) {
  const auto remove = [&]() -> Result<void> {
    const auto entry = entries_.find(model);
    if (entry != entries_.end() &&
        entry->second->deployment.state() != cluster::DeploymentState::kUnloaded) {
      return fail(ErrorCode::kInvalidArgument,
                  "this model is loaded; unload it first (salvage unload)");
    }
    entries_.erase(model);
    manifests_.erase(model);
    texts_.erase(model);
    RETURN_IF_ERROR(parts_.state.forget_deployment(model));
    for (const NodeId& node : membership_->online()) {
      if (node == options_.self) continue;
      (void)send_to(node, wire::MemberRequest{.kind = "remove_model", .value = model.value});
    }
    return parts_.store.remove(model);
  };
  return loop_.call(remove, Result<void>(fail(shutting_down())));
}

// --- what is loaded ------------------------------------------------------------------------------

DeploymentInfo Service::info_of(const Entry& entry) const {
  DeploymentInfo info;
  info.model_name = entry.model_name;
  info.status = entry.deployment.status();
  const cluster::DeploymentOptions& wish = entry.deployment.record().options;
  info.context = wish.context_per_sequence;
  info.sequences = wish.sequence_count;
  if (entry.pipeline) {
    info.requests_running = entry.pipeline->running();
    info.requests_queued = entry.pipeline->client().queued_count();
    info.steps = entry.pipeline->client().step_count();
    if (const auto sent = entry.sent.at(parts_.clock.now())) info.working = sent->busy;
  }
  for (std::size_t i = 0; i < info.status.stages.size(); ++i) {
    const auto known = entry.stages.find(StageIndex{static_cast<std::uint32_t>(i)});
    info.stages.push_back(stage_info(info.status.stages[i],
                                     known == entry.stages.end() ? Entry::Stage{} : known->second,
                                     parts_.clock.now()));
  }
  add_bubbles(info);
  info.links = links_of(entry);
  if (wish.hidden_type != "f32" && info.stages.size() > 1) {
    info.exact_conditions.push_back(fmt::format("hidden states travel as {}", wish.hidden_type));
  }
  add_exact_conditions(info.stages, info.exact_conditions);
  return info;
}

std::vector<LinkInfo> Service::links_of(const Entry& entry) const {
  if (!entry.pipeline) return {};
  const TimePoint now = parts_.clock.now();
  std::vector<Traffic> stages;
  for (const auto& [index, stage] : entry.stages) {
    if (!stage.counters) return {};
    stages.push_back({.node = stage.node,
                      .bytes_in = stage.counters->bytes_in,
                      .bytes_out = stage.counters->bytes_out,
                      .recent = stage.recent.at(now)});
  }
  return pipeline_links({.node = name_of(options_.self),
                         .bytes_in = entry.pipeline->bytes_in(),
                         .bytes_out = entry.pipeline->bytes_out(),
                         .recent = entry.sent.at(now)},
                        stages);
}

std::vector<DeploymentInfo> Service::deployments() {
  return loop_.call(
      [this] {
        std::vector<DeploymentInfo> all;
        for (const auto& [model, entry] : entries_) all.push_back(info_of(*entry));
        return all;
      },
      std::vector<DeploymentInfo>{});
}

}  // namespace salvage::coordinator
