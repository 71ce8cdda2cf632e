#pragma once

// Answers read by libllama-common's own parsers. engine/chat.h is the contract.
//
// libllama-common parses an answer from its beginning every time and says what is new; here its
// words become deltas that can be appended (a call's name once, arguments that are whole JSON at
// the end), and what it cannot parse becomes content instead of an exception.

#include <memory>
#include <string>
#include <vector>

#include <chat.h>

#include "engine/chat.h"

namespace salvage::engine {

struct ChatParserSpec {
  common_chat_parser_params params;
  std::vector<std::string> thinking_ends;  // texts, as "</think>"
  // It can call tools or is bound to a schema: then deeply nested answers cost the parser stack.
  bool structured = false;
};

std::unique_ptr<ChatParser> make_llama_chat_parser(std::shared_ptr<const ChatParserSpec> spec);

}  // namespace salvage::engine
