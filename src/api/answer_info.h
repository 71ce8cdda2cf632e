#pragma once

// What an answer says about itself in every piece: set once, when its request is accepted.

#include <cstdint>
#include <string>
#include <vector>

#include "api/generate_request.h"

namespace salvage::api {

struct AnswerInfo {
  Dialect dialect = Dialect::kChat;
  // What the caller knows.
  std::string unique;          // letters and digits, of no other answer; ids are made of it
  std::int64_t created_s = 0;  // Unix time
  std::string model;
  std::string fingerprint;  // the engine's build
  std::string request_id;
  std::vector<std::string> prompts;  // their texts, where `wants_prompts`
  Json settings = Json::object();    // kLlama: "generation_settings"
  // What the request said.
  std::uint32_t choices = 1;             // of all prompts together
  std::uint32_t choices_per_prompt = 1;  // choice c answers prompt c / choices_per_prompt
  bool include_usage = false;
  bool return_progress = false;
  bool return_tokens = false;
  bool echo = false;
  bool has_logprobs = false;
  bool probabilities_after_sampling = false;
  std::vector<std::string> response_fields;
  std::vector<std::string> custom_tools;
  Json response_echo = Json::object();

  bool wants_prompts() const { return echo || dialect == Dialect::kLlama; }
};

// The second half; the caller fills in the first.
AnswerInfo answer_info(const GenerateRequest& request);

}  // namespace salvage::api
