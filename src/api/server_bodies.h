#pragma once

// What llama.cpp's own clients ask of a server about itself: GET /health and GET /props. Pure, any
// thread.

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "api/errors.h"

namespace salvage::api {

// 200 once a model is loaded; while one is being loaded 503, as llama.cpp says it.
ErrorAnswer health_answer(bool is_loading);

struct PropsInfo {
  std::string model;       // its name; empty: none is loaded
  std::string model_path;  // of the file, as the owner named it; no path of another machine
  std::string quantisation;
  std::uint32_t sequence_count = 0;
  std::uint32_t context_tokens = 0;  // of one sequence
  std::string chat_template;
  std::string begin_token;  // as text
  std::string end_token;
  std::string build;                       // of the engine
  Json default_settings = Json::object();  // of the sampler
};

std::string props_body(const PropsInfo& info);

}  // namespace salvage::api
