#include "app/load_work.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "admin/info_json.h"
#include "app/load_line.h"
#include "app/node_process.h"
#include "app/pause.h"
#include "engine/llama/weight_placement.h"

namespace salvage::app {
namespace {

using cluster::DeploymentState;

constexpr Duration kLookPeriod = std::chrono::milliseconds(150);
// The coordinator fetches a model's list of pieces, some megabytes at most.
constexpr Duration kKnownTime = std::chrono::seconds(60);
constexpr Duration kKnowsTime = std::chrono::seconds(5);
// So many looks in vain and it is told once more: it may have been out of reach the first time.
constexpr int kLooksPerAnnouncement = 20;
// So often in a row a load may fail before its command says so and ends; the cluster goes on
// trying.
constexpr std::uint32_t kFailuresMax = 3;
constexpr std::uint32_t kRowsMin = 128;  // of a micro-batch
constexpr std::uint32_t kLogitRowsMin = 16;

Result<CacheType> cache_type(const std::string& name) {
  return name == "f16" ? CacheType::kF16 : CacheType::kQ8_0;  // the request was checked
}

// Hashes a file where it lies; at once for one that was hashed before.
Result<ModelId> import_file(NodeProcess& process, const std::string& path,
                            const admin::Report& report, const StopToken& stop) {
  const auto progress = [&](std::string_view, double fraction) {
    return report({.what = "hashing", .name = path, .fraction = fraction}) &&
           !stop.stop_requested();
  };
  ASSIGN_OR_RETURN(ModelId model, process.store().import_model(path, "", progress));
  process.agent().inventory_changed(model);
  return model;
}

Result<coordinator::LoadWish> wish_of(NodeProcess& process, const ModelId& model,
                                      const admin::LoadRequest& request) {
  coordinator::LoadWish wish;
  wish.model = model;
  wish.pins = request.pins;
  wish.context_chosen = request.context != 0;
  cluster::DeploymentOptions& options = wish.options;
  options.split = request.split;
  if (wish.context_chosen) options.context_per_sequence = request.context;
  wish.sequences_chosen = request.sequences != 0;
  if (wish.sequences_chosen) options.sequence_count = request.sequences;
  options.chunk_rows = request.chunk;
  options.rows_max = std::max(request.chunk, kRowsMin);
  options.logit_rows_max = std::max(request.sequences, kLogitRowsMin);
  ASSIGN_OR_RETURN(options.cache_type_k, cache_type(request.cache_type_k));
  ASSIGN_OR_RETURN(options.cache_type_v, cache_type(request.cache_type_v));
  options.hidden_type = request.hidden;
  options.thread_count = request.threads;
  ASSIGN_OR_RETURN(const auto metadata, process.store().metadata(model));
  options.exact = request.exact || engine::exact_is_free(metadata->tensors());
  return wish;
}

std::optional<coordinator::DeploymentInfo> find(NodeProcess& process, const ModelId& model) {
  for (coordinator::DeploymentInfo& info : process.coordinator()->deployments()) {
    if (info.status.model == model) return std::move(info);
  }
  return std::nullopt;
}

Error failure(const coordinator::DeploymentInfo& info) {
  const cluster::DeploymentStatus& status = info.status;
  std::string text = fmt::format("{} was not loaded: {}", info.model_name,
                                 status.reason.empty() ? "no reason is known" : status.reason);
  if (!status.last_lines.empty()) text += fmt::format("; its last lines: {}", status.last_lines);
  if (status.wanted) {
    text += fmt::format("; the cluster tries on (salvage ps), `salvage unload {}` ends that",
                        info.model_name);
  }
  return {ErrorCode::kUnavailable, std::move(text)};
}

// Until it is ready, or won't be.
Result<coordinator::DeploymentInfo> follow(NodeProcess& process, const ModelId& model,
                                           const admin::Report& report, const StopToken& stop) {
  const auto before = find(process, model);
  const std::uint32_t failures_before = before ? before->status.failure_count : 0;
  for (;;) {
    auto info = find(process, model);
    if (!info) return fail(ErrorCode::kNotFound, "the model was removed while it was loaded");
    if (info->status.state == DeploymentState::kReady) return std::move(*info);
    const bool given_up = !info->status.wanted && info->status.state == DeploymentState::kUnloaded;
    const bool failing =
        info->status.failure_count >= kFailuresMax && info->status.failure_count > failures_before;
    if (given_up || failing) return fail(failure(*info));
    const std::string name = info->model_name;
    const bool heard =
        report({.what = "loading", .name = name, .fraction = 0, .deployment = std::move(info)});
    if (!heard || !pause_for(kLookPeriod, stop)) {
      return fail(ErrorCode::kCancelled, fmt::format("{} is still being loaded", name));
    }
  }
}

Error not_known(const NodeProcess& process, const Error& last) {
  return {
      ErrorCode::kUnavailable,
      fmt::format("the model is known on this machine, but its coordinator does not know it yet "
                  "({}). It fetches a list from here: can it reach this machine on port {}? It "
                  "is told again with every new link",
                  last.message(), process.port())};
}

// Until the coordinator can be told to load the model.
Result<void> until_known(NodeProcess& process, const admin::LoadOutcome& outcome,
                         const admin::Report& report, const StopToken& stop) {
  const TimePoint end = deadline_after(process.clock().now(), kKnownTime);
  for (int look = 1;; ++look) {
    const Result<void> known =
        process.agent().request({.kind = "knows", .value = outcome.model.value},
                                deadline_after(process.clock().now(), kKnowsTime));
    // An older coordinator can't be asked.
    if (known || known.error().code() == ErrorCode::kUnsupported) return {};
    if (process.clock().now() >= end) return fail(not_known(process, known.error()));
    if (look % kLooksPerAnnouncement == 0) process.agent().inventory_changed(outcome.model);
    if (!report({.what = "announcing", .name = outcome.name, .fraction = 1, .deployment = {}}) ||
        !pause_for(kLookPeriod, stop)) {
      return fail(ErrorCode::kCancelled, "the coordinator was told and has not answered yet");
    }
  }
}

}  // namespace

Result<admin::LoadOutcome> load_model(NodeProcess& process, const admin::LoadRequest& request,
                                      const admin::Report& report, const StopToken& stop) {
  admin::LoadOutcome outcome;
  if (request.path.empty()) {
    ASSIGN_OR_RETURN(outcome.model, process.coordinator()->resolve_model(request.model));
  } else {
    ASSIGN_OR_RETURN(outcome.model, import_file(process, request.path, report, stop));
  }
  const auto present = find(process, outcome.model);
  if (!request.if_needed || !present || !present->status.wanted) {
    ASSIGN_OR_RETURN(const coordinator::LoadWish wish, wish_of(process, outcome.model, request));
    RETURN_IF_ERROR(process.coordinator()->load(wish));
  }
  if (request.wait) {
    ASSIGN_OR_RETURN(outcome.deployment, follow(process, outcome.model, report, stop));
  }
  if (const auto entry = process.store().entry(outcome.model)) outcome.name = entry->name;
  return outcome;
}

Result<admin::LoadOutcome> offer_model(NodeProcess& process, const admin::LoadRequest& request,
                                       const admin::Report& report, const StopToken& stop) {
  admin::LoadOutcome outcome;
  ASSIGN_OR_RETURN(outcome.model, import_file(process, request.path, report, stop));
  ASSIGN_OR_RETURN(const model::CatalogueEntry entry, process.store().entry(outcome.model));
  outcome.name = entry.name;
  outcome.load_at = process.coordinator_text();
  outcome.command = load_line(request, entry.name);
  if (request.wait) RETURN_IF_ERROR(until_known(process, outcome, report, stop));
  return outcome;
}

LoadView view_of(const admin::WorkProgress& progress) {
  return parse_load_view(admin::to_json(progress).dump()).value_or(LoadView{});
}

}  // namespace salvage::app
