#include "gateway/server_info.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/server_bodies.h"
#include "engine/chat.h"
#include "gateway/sampling_options.h"
#include "metrics/glance_json.h"
#include "metrics/metrics_text.h"

namespace salvage::gateway {
namespace {

// Whether one is loaded; if none is, whether one is on its way.
struct Readiness {
  bool is_loaded = false;
  bool is_loading = false;
};

Readiness readiness_of(const std::vector<api::ModelEntry>& models) {
  const auto any = [&](api::ModelState state) {
    return std::any_of(models.begin(), models.end(),
                       [state](const api::ModelEntry& model) { return model.state == state; });
  };
  return {.is_loaded = any(api::ModelState::kLoaded), .is_loading = any(api::ModelState::kLoading)};
}

std::string text_of(const engine::Vocabulary& vocabulary, const std::optional<TokenId>& token) {
  return token ? vocabulary.piece(*token, true) : std::string();
}

// Without a template, or with one that can't be read, the model still completes texts.
std::string template_of(const engine::TextTools& text) {
  const auto format = text.make_chat_format();
  return format ? (*format)->facts().template_source : std::string();
}

api::SlotInfo slot_of(std::size_t index, const pipeline::SequenceUse& use, std::uint32_t context) {
  api::SlotInfo slot{.id = static_cast<std::uint32_t>(index),
                     .context_tokens = context,
                     .held_tokens = use.tokens};
  if (!use.request) return slot;
  slot.request = use.request->value;
  slot.prompt_tokens = use.prompt_tokens;
  slot.read_tokens = use.read_tokens;
  slot.cached_tokens = use.reused_tokens;
  slot.answer_tokens = use.answer_tokens;
  return slot;
}

}  // namespace

api::Parsed<ReadyModel> ready_model(ServingBackend& backend, const std::string& name) {
  const std::vector<api::ModelEntry> models = backend.models();
  const auto found = api::find_model(models, name);
  if (!found) return fail(found.error());
  auto ready = backend.ready((*found)->id);
  if (ready) return std::move(*ready);
  api::ApiError error = api::api_error(ready.error());
  if (ready.error().code() == ErrorCode::kUnavailable ||
      ready.error().code() == ErrorCode::kNotFound) {
    error.kind = api::ErrorKind::kModelLoading;
  }
  return fail(std::move(error));
}

// Well is who can answer: probes and balancers send it requests then.
api::Parsed<std::string> ServerInfo::health() const {
  const Readiness readiness = readiness_of(backend_.models());
  if (readiness.is_loaded) return std::string(R"({"status":"ok"})");
  return fail(
      api::ApiError{.kind = api::ErrorKind::kModelLoading,
                    .message = readiness.is_loading ? "Loading model" : "No model is loaded"});
}

api::Parsed<std::string> ServerInfo::props(std::string_view target) const {
  api::PropsInfo info;
  info.build = build_;
  info.default_settings = default_settings();
  const std::string wanted = api::query_value(target, "model").value_or("");
  const std::vector<api::ModelEntry> models = backend_.models();
  if (wanted.empty() && !readiness_of(models).is_loaded) return api::props_body(info);
  ASSIGN_OR_RETURN(const ReadyModel model, ready_model(backend_, wanted));
  const engine::TextTools& text = model.pipeline->text();
  info.model = model.name;
  info.model_path = model.name;
  for (const api::ModelEntry& one : models) {
    if (one.id == model.name) info.quantisation = one.quantisation;
  }
  info.sequence_count = model.pipeline->limits().sequence_count;
  info.context_tokens = model.pipeline->limits().context_per_sequence;
  info.chat_template = template_of(text);
  info.begin_token = text_of(*text.vocabulary, text.vocabulary->begin_token());
  info.end_token = text_of(*text.vocabulary, text.vocabulary->end_token());
  return api::props_body(info);
}

api::Parsed<std::string> ServerInfo::slots(std::string_view target) const {
  ASSIGN_OR_RETURN(const ReadyModel model,
                   ready_model(backend_, api::query_value(target, "model").value_or("")));
  const auto uses = model.pipeline->client().sequences();
  const bool all_taken = std::all_of(uses.begin(), uses.end(),
                                     [](const pipeline::SequenceUse& use) { return use.request; });
  if (all_taken && api::query_value(target, "fail_on_no_slot").value_or("0") != "0") {
    return fail(api::ApiError{.kind = api::ErrorKind::kNoCapacity, .message = "no slot available"});
  }
  std::vector<api::SlotInfo> slots;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    slots.push_back(slot_of(i, uses[i], model.pipeline->limits().context_per_sequence));
  }
  return api::slots_body(slots);
}

std::string ServerInfo::requests() const {
  return api::to_line(metrics::requests_json(ledger_.records(clock_.now())));
}

std::string ServerInfo::cluster() const {
  return api::to_line(to_json(backend_.glance()));
}

std::string ServerInfo::metrics() const {
  return metrics::metrics_text(ledger_.totals(clock_.now()), backend_.glance());
}

}  // namespace salvage::gateway
