// Who is ready to answer.

#include <fmt/format.h>

#include "coordinator/service.h"

namespace salvage::coordinator {

Result<ReadyPipeline> Service::ready_pipeline(const std::string& model) {
  Entry* entry = nullptr;
  if (model.empty()) {
    for (auto& [id, one] : entries_) {
      if (!one->deployment.wanted()) continue;
      if (entry != nullptr) {
        return fail(ErrorCode::kInvalidArgument, "several models are loaded; name one");
      }
      entry = one.get();
    }
  } else {
    ASSIGN_OR_RETURN(const ModelId id, resolve_model(model));
    const auto found = entries_.find(id);
    if (found != entries_.end() && found->second->deployment.wanted()) entry = found->second.get();
  }
  if (entry == nullptr) {
    return fail(ErrorCode::kNotFound, "no such model is loaded; `salvage load` loads one");
  }
  if (entry->deployment.state() != cluster::DeploymentState::kReady || !entry->pipeline) {
    const auto status = entry->deployment.status();
    return fail(ErrorCode::kUnavailable,
                fmt::format("{} is not ready: {}{}{}", entry->model_name,
                            cluster::deployment_state_name(status.state),
                            status.reason.empty() ? "" : ": ", status.reason));
  }
  return ReadyPipeline{entry->pipeline, info_of(*entry)};
}

Result<ReadyPipeline> Service::ready(const std::string& model) {
  return loop_.call([&] { return ready_pipeline(model); },
                    Result<ReadyPipeline>(fail(ErrorCode::kUnavailable, "shutting down")));
}

}  // namespace salvage::coordinator
