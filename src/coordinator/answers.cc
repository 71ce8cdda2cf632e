// Prompts in, answers out.

#include <utility>

#include <fmt/format.h>

#include "coordinator/service.h"
#include "pipeline/generation.h"

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

Result<pipeline::GenerationOptions> Service::prepare(const ClusterPipeline& ready,
                                                     const RunWish& wish) {
  pipeline::GenerationOptions options;
  options.tokens_max = wish.tokens_max;
  options.sampling = wish.sampling;
  options.hash_logits = wish.hash_logits;
  RETURN_IF_ERROR(pipeline::set_prompt(ready.text(), wish.prompt, wish.chat, options));
  return options;
}

Result<RunOutcome> Service::run(const RunWish& wish,
                                const std::function<bool(std::string_view)>& show,
                                const StopToken& stop) {
  ASSIGN_OR_RETURN(const ReadyPipeline prepared, ready(wish.model));
  ASSIGN_OR_RETURN(const auto options, prepare(*prepared.pipeline, wish));
  const auto running = prepared.pipeline->count_running();
  ASSIGN_OR_RETURN(pipeline::Generation generation,
                   pipeline::generate(prepared.pipeline->client(), prepared.pipeline->text(),
                                      options, show, stop));
  return RunOutcome{std::move(generation), prepared.deployment};
}

}  // namespace salvage::coordinator
