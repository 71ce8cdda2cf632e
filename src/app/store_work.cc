#include "app/store_work.h"

#include <utility>

#include <fmt/format.h>

#include "app/node_process.h"

namespace salvage::app {

bool is_path(const std::string& model) {
  return model.starts_with('/');
}

Result<ModelId> stored_model(const store::PieceStore& store, const std::string& name) {
  if (is_path(name)) return store.model_of(name);
  std::vector<ModelId> found;
  for (const model::CatalogueEntry& entry : store.models()) {
    const ModelId id = entry.id();
    if (entry.name == name || id.value == name) return id;
    if (!name.empty() && id.value.starts_with(name)) found.push_back(id);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return fail(ErrorCode::kNotFound, fmt::format("this machine holds nothing of '{}'", name));
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is the beginning of several models' ids", name));
}

Result<admin::VerifyOutcome> verify_model(NodeProcess& process, const ModelId& model,
                                          const admin::Report& report, const StopToken& stop) {
  ASSIGN_OR_RETURN(const model::CatalogueEntry entry, process.store().entry(model));
  const auto progress = [&](std::string_view what, double fraction) {
    return report({.what = "verifying", .name = std::string(what), .fraction = fraction}) &&
           !stop.stop_requested();
  };
  ASSIGN_OR_RETURN(const auto damaged, process.store().verify(model, progress));
  admin::VerifyOutcome outcome{.model = model, .name = entry.name};
  for (const store::ModelUsage& usage : process.store().usage().models) {
    if (usage.model == model) outcome.bytes = usage.bytes();
  }
  for (const store::DamagedPiece& piece : damaged) {
    outcome.damaged.push_back({piece.piece, piece.file.string()});
  }
  process.agent().inventory_changed(model);
  return outcome;
}

Result<admin::GcOutcome> collect_garbage(NodeProcess& process, const admin::GcRequest& request,
                                         std::map<ModelId, store::KeptModel> keep) {
  store::GcOptions options;
  options.keep = std::move(keep);
  options.bytes_max = request.bytes_max;
  options.dry_run = request.dry_run;
  ASSIGN_OR_RETURN(store::GcReport report, process.store().gc(options));
  if (!request.dry_run) {
    for (const model::CatalogueEntry& entry : process.store().models()) {
      process.agent().inventory_changed(entry.id());
    }
  }
  return admin::GcOutcome{.bytes_freed = report.bytes_freed,
                          .dry_run = request.dry_run,
                          .removed = std::move(report.removed)};
}

}  // namespace salvage::app
