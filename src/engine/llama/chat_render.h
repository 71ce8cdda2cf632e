#pragma once

// One call of libllama-common's chat functions: a checked request in, its prompt, grammar and
// parser out; exceptions become errors that blame a field of the request.

#include <chat.h>

#include "base/result.h"
#include "engine/chat.h"
#include "engine/chat_input.h"

namespace salvage::engine {

struct RenderSettings {
  const common_chat_templates* templates = nullptr;
  bool enable_thinking = true;
  bool parallel_tool_calls = false;
};

Result<common_chat_params> render_chat(const RenderSettings& settings, const ChatRequest& request,
                                       const ChatInput& input);

// By libllama-common's converter, checked (grammar_check.h) before and behind it; an error names no
// field.
Result<std::string> grammar_of_schema(const llama_vocab* vocabulary,
                                      const nlohmann::ordered_json& schema);

}  // namespace salvage::engine
