#pragma once

// What llama.cpp's own clients ask of a server about itself: GET /props and /slots, and the
// small answers that belong to no dialect. Pure, any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "api/errors.h"

namespace salvage::api {

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

// One sequence of the KV cache.
struct SlotInfo {
  std::uint32_t id = 0;
  std::uint32_t context_tokens = 0;
  std::uint32_t held_tokens = 0;         // of the cache, busy or kept for a next turn
  std::optional<std::uint64_t> request;  // unset: idle; the rest then is 0
  std::uint32_t prompt_tokens = 0;
  std::uint32_t read_tokens = 0;    // of the prompt, those found in the cache among them
  std::uint32_t cached_tokens = 0;  // of these
  std::uint32_t answer_tokens = 0;
};

std::string slots_body(std::span<const SlotInfo> slots);

std::string cancelled_body(std::string_view id);  // DELETE /v1/requests/ID

// Of a request line's query, percent-decoded; unset: it isn't there. "?flag" is there, and empty.
std::optional<std::string> query_value(std::string_view target, std::string_view name);

}  // namespace salvage::api
