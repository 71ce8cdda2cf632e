#include "app/api_service.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "app/command.h"
#include "app/version.h"
#include "app/wall_clock.h"
#include "app/words.h"
#include "base/ip_address.h"
#include "base/random.h"
#include "engine/chat.h"
#include "transport/tcp/plain_stream.h"

namespace salvage::app {
namespace {

constexpr std::size_t kKeyBytes = 24;
constexpr std::string_view kKeyPrefix = "sk-slv-";

std::string url_of(const std::string& address, std::uint16_t port) {
  // Who listens on all addresses reaches itself on loopback.
  const std::string shown = address == "0.0.0.0" ? "127.0.0.1" : address == "::" ? "::1" : address;
  return shown.find(':') == std::string::npos ? fmt::format("http://{}:{}", shown, port)
                                              : fmt::format("http://[{}]:{}", shown, port);
}

api::ModelState state_of(const cluster::DeploymentStatus& status) {
  if (status.state == cluster::DeploymentState::kReady) return api::ModelState::kLoaded;
  return status.wanted ? api::ModelState::kLoading : api::ModelState::kUnloaded;
}

// Having the weights is half of the way, loading them the other.
double progress_of(const coordinator::DeploymentInfo& deployment) {
  double sum = 0;
  for (const coordinator::StageInfo& stage : deployment.stages) {
    const cluster::StageStatus& status = stage.status;
    switch (status.state) {
      case cluster::StageState::kFetching:
        if (status.fetch_bytes > 0) {
          sum += 0.5 * static_cast<double>(std::min(status.fetched_bytes, status.fetch_bytes)) /
                 static_cast<double>(status.fetch_bytes);
        }
        break;
      case cluster::StageState::kLoaded:
        sum += 1;
        break;
      default:
        sum += 0.5 + 0.5 * std::clamp(status.load_fraction, 0.0, 1.0);
    }
  }
  return deployment.stages.empty() ? 0 : sum / static_cast<double>(deployment.stages.size());
}

}  // namespace

Result<std::unique_ptr<ApiService>> ApiService::start(const ApiOptions& options,
                                                      state::StateDb& state,
                                                      coordinator::Coordinator& coordinator,
                                                      metrics::RequestLedger& ledger,
                                                      const Clock& clock) {
  std::unique_ptr<ApiService> service(new ApiService(coordinator, clock));
  const auto ip = parse_ip_address(options.address);
  if (!ip) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is no IPv4 or IPv6 address", options.address));
  }
  service->keys_required_ = (!is_loopback(*ip) && !options.insecure) || !options.keys.empty();
  gateway::ApiOptions api;
  ASSIGN_OR_RETURN(api.key_digests, state.api_keys());
  if (api.key_digests.empty() && options.keys.empty() && !options.insecure) {
    ASSIGN_OR_RETURN(const std::string random, random_hex(kKeyBytes));
    service->new_key_ = std::string(kKeyPrefix) + random;
    api.key_digests.push_back(gateway::ApiKeys::digest_of(service->new_key_));
    RETURN_IF_ERROR(state.put_api_key(api.key_digests.back()));
  }
  for (const std::string& key : options.keys) {
    api.key_digests.push_back(gateway::ApiKeys::digest_of(key));
  }
  api.keys_required = service->keys_required_;
  api.this_machine_only = is_loopback(*ip);
  api.fingerprint = fmt::format("salvage-{}-llama.cpp-{}", kVersion, kLlamaPin);
  api.wall_ms = wall_clock_ms;
  http::HttpServiceOptions http;
  ASSIGN_OR_RETURN(http.listener, transport::listen_plainly(options.address, options.port));
  http.clock = &clock;
  service->url_ = url_of(options.address, http.listener->port());
  service->handler_ =
      std::make_unique<gateway::ApiHandler>(std::move(api), *service, ledger, clock);
  service->service_ = http::HttpService::start(std::move(http), *service->handler_);
  return service;
}

ApiService::~ApiService() = default;

std::vector<api::ModelEntry> ApiService::models() {
  std::vector<api::ModelEntry> entries;
  const auto deployments = coordinator_.deployments();
  for (const coordinator::ModelInfo& model : coordinator_.models()) {
    api::ModelEntry entry;
    entry.id = model.name;
    entry.bytes = model.bytes;
    entry.created_s = model.known_since_s;
    entry.trained_context_tokens = model.context_length;
    entry.parameter_count = model.parameter_count;
    entry.vocabulary_size = static_cast<std::uint32_t>(model.vocabulary_size);
    entry.hidden_size = model.hidden_size;
    entry.quantisation = model.quantisation;
    for (const coordinator::DeploymentInfo& one : deployments) {
      if (one.status.model != model.model) continue;
      entry.state = state_of(one.status);
      entry.context_tokens = one.context;
      if (entry.state == api::ModelState::kLoading) entry.progress = progress_of(one);
    }
    if (entry.state == api::ModelState::kLoaded) add_abilities(model.model, entry);
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<gateway::ReadyModel> ApiService::ready(const std::string& model) {
  ASSIGN_OR_RETURN(coordinator::ReadyPipeline ready, coordinator_.ready(model));
  gateway::ReadyModel served{ready.deployment.model_name, std::move(ready.pipeline), {}};
  for (const coordinator::StageInfo& stage : ready.deployment.stages) {
    served.machines.push_back(stage.status.placed.name);
  }
  return served;
}

metrics::ClusterGlance ApiService::glance() {
  return {.cluster = coordinator_.cluster(),
          .deployments = coordinator_.deployments(),
          .models = coordinator_.models()};
}

// The template is read with a loaded model's first list, and known from then on.
void ApiService::add_abilities(const ModelId& model, api::ModelEntry& entry) {
  {
    MutexLock lock(mutex_);
    const auto known = abilities_.find(model);
    if (known != abilities_.end()) {
      entry.has_tools = known->second.tools;
      entry.has_thinking = known->second.thinking;
      return;
    }
  }
  const auto ready = coordinator_.ready(model.value);
  if (!ready) return;
  const auto format = ready->pipeline->text().make_chat_format();
  if (format) {
    entry.has_tools = (*format)->facts().tools;
    entry.has_thinking = (*format)->facts().thinking;
  }
  MutexLock lock(mutex_);
  abilities_[model] = {entry.has_tools, entry.has_thinking};
}

std::string api_text(const ApiService& service) {
  std::string text = words("up.api", service.url());
  if (!service.new_key().empty()) text += '\n' + words("up.api_key", service.new_key());
  std::string key;
  if (service.keys_required()) {
    key = fmt::format(" -H 'Authorization: Bearer {}'",
                      service.new_key().empty() ? "KEY" : service.new_key());
  }
  return text + '\n' +
         words("up.api_try", fmt::format("curl {}/v1/chat/completions{} -d "
                                         R"('{{"messages":[{{"role":"user","content":"{}"}}]}}')",
                                         service.url(), key, words("up.api_question")));
}

}  // namespace salvage::app
