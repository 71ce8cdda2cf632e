#include "api/server_bodies.h"

#include <algorithm>
#include <utility>

#include "api/routes.h"

namespace salvage::api {

std::string props_body(const PropsInfo& info) {
  Json settings = Json::object();
  settings["params"] = info.default_settings;
  settings["n_ctx"] = info.context_tokens;
  Json json = Json::object();
  json["default_generation_settings"] = std::move(settings);
  json["total_slots"] = info.sequence_count;
  json["model_alias"] = info.model;
  json["model_ftype"] = info.quantisation;
  json["model_path"] = info.model_path;
  json["modalities"] = {{"vision", false}, {"video", false}, {"audio", false}};
  json["chat_template"] = info.chat_template;
  json["bos_token"] = info.begin_token;
  json["eos_token"] = info.end_token;
  json["build_info"] = info.build;
  json["is_sleeping"] = false;
  return to_line(json);
}

std::string slots_body(std::span<const SlotInfo> slots) {
  Json list = Json::array();
  for (const SlotInfo& slot : slots) {
    Json json{{"id", slot.id},
              {"n_ctx", slot.context_tokens},
              {"speculative", false},
              {"is_processing", slot.request.has_value()},
              {"n_held_tokens", slot.held_tokens}};
    if (slot.request) {
      json["id_task"] = *slot.request;
      json["n_prompt_tokens"] = slot.prompt_tokens;
      json["n_prompt_tokens_processed"] = slot.read_tokens - slot.cached_tokens;
      json["n_prompt_tokens_cache"] = slot.cached_tokens;
      Json next{{"has_next_token", true}, {"n_decoded", slot.answer_tokens}};
      json["next_token"] = Json::array();
      json["next_token"].push_back(std::move(next));
    }
    list.push_back(std::move(json));
  }
  return to_line(list);
}

std::string cancelled_body(std::string_view id) {
  Json json{{"id", id}, {"object", "request"}};
  json["cancelled"] = true;
  return to_line(json);
}

std::optional<std::string> query_value(std::string_view target, std::string_view name) {
  const std::size_t begin = target.find('?');
  if (begin == std::string_view::npos) return std::nullopt;
  std::string_view query = target.substr(begin + 1);
  query = query.substr(0, query.find('#'));
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) == name) {
      return percent_decoded(pair.substr(std::min(equals + 1, pair.size())));
    }
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return std::nullopt;
}

}  // namespace salvage::api
