#pragma once

// Conversations: messages and tools in the shape of OpenAI's API become a prompt by the model's own
// template, and what the model writes becomes content, reasoning and tool calls again.
//
// Text of a conversation never becomes control tokens, whatever it says; only the template writes
// those (docs/decisions/0011-user-text-is-text.md).
//
// Thread rule: a ChatFormat and a ChatPrompt from any thread at once, a ChatParser from one at a
// time. Each of them outlives what it was made from.
//
// Failure: `invalid_argument` begins with the field that is to blame and a colon, so that an API
// can name it: "messages[2].role: ...", "tools[0].function.parameters: ...", "json_schema: ...".

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "base/result.h"
#include "engine/sampling.h"

namespace salvage::engine {

// Whether the answer goes on where the last message, an assistant's, ends; and with which part of
// it. kAuto: with the reasoning if the message has nothing else.
enum class ChatContinuation { kNone, kAuto, kContent, kReasoning };

struct ChatRequest {
  // An array of {"role", "content", ...}: roles system, developer, user, assistant, tool and
  // function; content a string, null, or an array of {"type": "text", "text"}; an assistant's
  // "tool_calls" and "reasoning_content", a tool's "tool_call_id" and "name". Null is absent.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  // An array of {"type": "function", "function": {"name", "description", "parameters"}}, or null.
  nlohmann::ordered_json tools;
  // "auto", "none", "required", {"type": "function", "function": {"name"}}, or null = auto.
  nlohmann::ordered_json tool_choice;
  std::optional<bool> parallel_tool_calls;  // unset: as the template can
  // At most one of: a JSON schema (an object, of which {} is any JSON object, or true, any JSON),
  // or a GBNF grammar. A grammar excludes tools.
  nlohmann::ordered_json json_schema;
  std::string grammar;
  nlohmann::ordered_json template_arguments;  // an object ("chat_template_kwargs"), or null
  std::string reasoning_effort;               // "none": don't think; else the template's word
  std::optional<bool> enable_thinking;        // unset: if the model can
  bool split_reasoning = true;                // false: thoughts stay in the content
  std::int32_t thinking_budget = -1;          // tokens; -1: no bound
  std::string thinking_budget_message;        // what the thoughts end with when it is spent
  bool add_generation_prompt = true;          // not with a continuation
  ChatContinuation continuation = ChatContinuation::kNone;
};

struct ChatToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON
  friend bool operator==(const ChatToolCall&, const ChatToolCall&) = default;
};

// An answer, or as much of it as is known.
struct ChatAnswer {
  std::string content;
  std::string reasoning;
  std::vector<ChatToolCall> tool_calls;
  friend bool operator==(const ChatAnswer&, const ChatAnswer&) = default;
};

// What one increment of text added. Appending all deltas of an answer gives the answer.
struct ChatDelta {
  std::string content;
  std::string reasoning;
  // A call comes as its id and name once, with the index's first delta, then its arguments in
  // pieces.
  struct ToolCall {
    std::size_t index = 0;
    std::string id;
    std::string name;
    std::string arguments;
  };
  std::optional<ToolCall> tool_call;
};

// Reads one answer. No text that a model may write makes it fail: what does not parse as the
// model's own form of tool calls is content.
class ChatParser {
 public:
  virtual ~ChatParser() = default;
  // `text` is the next whole characters of the answer.
  virtual std::vector<ChatDelta> push(std::string_view text) = 0;
  // The answer is at its end.
  virtual std::vector<ChatDelta> finish() = 0;
  virtual const ChatAnswer& answer() const = 0;
};

struct ChatPrompt {
  std::string text;             // as the template wrote it; for people and /apply-template
  std::vector<TokenId> tokens;  // begin and end tokens included
  // Tokens before the turn that the answer belongs to: the next prompt of this conversation may
  // write the answer differently, but not these. 0: not known.
  std::uint32_t turn = 0;
  std::vector<std::string> stop;
  // Control tokens that the parser must see: their text belongs to the answer's.
  std::vector<TokenId> visible_tokens;
  AnswerGrammar grammar;  // for SamplingOptions, as `thinking`
  Thinking thinking;
  std::function<std::unique_ptr<ChatParser>()> make_parser;  // one for each answer
};

struct ChatFormatFacts {
  std::string template_source;
  bool tools = false;  // The template describes tools to the model.
  bool parallel_tool_calls = false;
  bool system_role = false;
  bool thinking = false;  // enable_thinking makes a difference.
};

class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  virtual const ChatFormatFacts& facts() const = 0;
  virtual Result<ChatPrompt> apply(const ChatRequest& request) const = 0;
};

// The field that such an error blames: "messages[2].role". Empty if it blames none.
inline std::string_view blamed_field(std::string_view message) {
  const std::size_t end = message.find(": ");
  if (end == std::string_view::npos) return {};
  const std::string_view head = message.substr(0, end);
  const bool field =
      head.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789.[]") == std::string_view::npos;
  return field ? head : std::string_view();
}

}  // namespace salvage::engine
