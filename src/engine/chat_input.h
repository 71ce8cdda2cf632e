#pragma once

// A chat request, checked and brought into the one form that libllama's chat functions take without
// complaint: what clients write differently (null for absent, arguments as an object, the roles of
// old) is made alike here, and what is wrong is blamed on its field. Pure; any thread.

#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "engine/chat.h"

namespace salvage::engine {

enum class ToolChoice { kAuto, kNone, kRequired };

struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nlohmann::ordered_json::array();
  ToolChoice tool_choice = ToolChoice::kAuto;
  nlohmann::ordered_json json_schema;         // an object, or null
  nlohmann::ordered_json template_arguments;  // an object
};

Result<ChatInput> read_chat_request(const ChatRequest& request);

// What a template that insists on turns may be given instead: system messages in front as one,
// neighbours of one role joined by an empty line. The same messages if there is nothing to join.
nlohmann::ordered_json in_turns(const nlohmann::ordered_json& messages);

}  // namespace salvage::engine
