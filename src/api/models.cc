#include "api/models.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/known_json.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

constexpr std::string_view kLatest = ":latest";
constexpr std::size_t kNamesShownMax = 8;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view without_latest(std::string_view name) {
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name;
}

// `plain` makes a name comparable.
template <typename Plain>
const ModelEntry* find_by(std::span<const ModelEntry> models, std::string_view name, Plain plain) {
  const auto wanted = plain(name);
  for (const ModelEntry& model : models) {
    if (plain(std::string_view(model.id)) == wanted) return &model;
  }
  for (const ModelEntry& model : models) {
    const bool is_alias = std::any_of(
        model.aliases.begin(), model.aliases.end(),
        [&](const std::string& alias) { return plain(std::string_view(alias)) == wanted; });
    if (is_alias) return &model;
  }
  return nullptr;
}

std::string names_of(std::span<const ModelEntry> models) {
  std::string names;
  for (const ModelEntry& model : models.first(std::min(models.size(), kNamesShownMax))) {
    names += (names.empty() ? "" : ", ") + model.id;
  }
  if (models.size() > kNamesShownMax) names += ", ...";
  return names.empty() ? "none" : names;
}

// The one model in one of these states, if there is exactly one.
const ModelEntry* only_in(std::span<const ModelEntry> models,
                          std::initializer_list<ModelState> states) {
  const ModelEntry* only = nullptr;
  for (const ModelEntry& model : models) {
    if (std::find(states.begin(), states.end(), model.state) == states.end()) continue;
    if (only != nullptr) return nullptr;
    only = &model;
  }
  return only;
}

bool has_loaded(std::span<const ModelEntry> models) {
  return std::any_of(models.begin(), models.end(),
                     [](const ModelEntry& model) { return model.state == ModelState::kLoaded; });
}

ApiError no_model(std::span<const ModelEntry> models, std::string_view name) {
  const std::string what = name.empty()
                               ? "the request names no model, and not exactly one is loaded"
                               : fmt::format("there is no model {}", in_quotes(name));
  return {.kind = ErrorKind::kModelNotFound,
          .message = fmt::format("{}; there are: {}", what, names_of(models)),
          .param = "model"};
}

std::string_view state_name(ModelState state) {
  switch (state) {
    case ModelState::kUnloaded:
      return "unloaded";
    case ModelState::kDownloading:
      return "downloading";
    case ModelState::kLoading:
      return "loading";
    case ModelState::kLoaded:
      return "loaded";
  }
  return "unloaded";
}

Json meta_json(const ModelEntry& model) {
  Json meta = Json::object();
  put_positive(meta, "n_ctx", model.context_tokens);
  put_positive(meta, "n_ctx_train", model.trained_context_tokens);
  put_positive(meta, "n_params", model.parameter_count);
  put_positive(meta, "size", model.bytes);
  put_positive(meta, "n_vocab", model.vocabulary_size);
  put_positive(meta, "n_embd", model.hidden_size);
  put_text(meta, "ftype", model.quantisation);
  return meta;
}

Json capabilities_json(const ModelEntry& model) {
  Json list = Json::array({"completion"});
  if (model.has_tools) list.push_back("tools");
  if (model.has_thinking) list.push_back("thinking");
  return list;
}

// What isn't known is left out: some front ends drop a model whose name is null.
Json openai_model(const ModelEntry& model) {
  Json json{{"id", model.id},
            {"object", "model"},
            {"created", model.created_s},
            {"owned_by", "salvage"},
            {"name", model.id}};
  put_text(json, "description", model.description);
  if (!model.aliases.empty()) json["aliases"] = model.aliases;
  put_positive(json, "context_length", model.context_tokens);
  json["meta"] = meta_json(model);
  json["architecture"] = {{"input_modalities", Json::array({"text"})},
                          {"output_modalities", Json::array({"text"})}};
  json["status"]["value"] = state_name(model.state);
  if (model.progress) json["status"]["progress"] = *model.progress;
  json["capabilities"] = capabilities_json(model);
  return json;
}

std::string iso_time(std::int64_t unix_s) {
  const auto time = std::chrono::sys_seconds(std::chrono::seconds(unix_s));
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

Json anthropic_model(const ModelEntry& model) {
  return {{"type", "model"},
          {"id", model.id},
          {"display_name", model.id},
          {"created_at", iso_time(model.created_s)}};
}

}  // namespace

Parsed<const ModelEntry*> find_model(std::span<const ModelEntry> models, std::string_view name) {
  const auto exactly = [](std::string_view text) { return text; };
  const auto loosely = [](std::string_view text) { return lower(without_latest(text)); };
  if (name.empty()) {
    const ModelEntry* only = only_in(models, {ModelState::kLoaded});
    const bool any_loaded = only != nullptr || has_loaded(models);
    // It will answer soon, and says so.
    if (!any_loaded) only = only_in(models, {ModelState::kLoading, ModelState::kDownloading});
    if (only != nullptr) return only;
    return fail(no_model(models, name));
  }
  if (const ModelEntry* found = find_by(models, name, exactly)) return found;
  if (const ModelEntry* found = find_by(models, name, loosely)) return found;
  return fail(no_model(models, name));
}

std::string models_body(std::span<const ModelEntry> models, Dress dress) {
  Json json = Json::object();
  Json data = Json::array();
  for (const ModelEntry& model : models) {
    data.push_back(dress == Dress::kAnthropic ? anthropic_model(model) : openai_model(model));
  }
  if (dress == Dress::kAnthropic) {
    json["data"] = std::move(data);
    json["has_more"] = false;
    json["first_id"] = models.empty() ? Json(nullptr) : Json(models.front().id);
    json["last_id"] = models.empty() ? Json(nullptr) : Json(models.back().id);
    return to_line(json);
  }
  json["object"] = "list";
  json["data"] = std::move(data);
  return to_line(json);
}

std::string model_body(const ModelEntry& model, Dress dress) {
  return to_line(dress == Dress::kAnthropic ? anthropic_model(model) : openai_model(model));
}

}  // namespace salvage::api
