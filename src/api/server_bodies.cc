#include "api/server_bodies.h"

namespace salvage::api {

ErrorAnswer health_answer(bool is_loading) {
  if (!is_loading) return {.status = 200, .body = R"({"status":"ok"})"};
  return render_error({.kind = ErrorKind::kModelLoading, .message = "Loading model"}, Dress::kLlama,
                      "");
}

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

}  // namespace salvage::api
