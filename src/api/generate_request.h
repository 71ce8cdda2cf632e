#pragma once

// What a client wants generated, whichever service's words it used: the one value between the
// dialects and the engine. All of it is checked; messages and tools stay JSON, brought into one
// shape (that of chat completions), because the model's chat template is what reads them.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "api/errors.h"
#include "api/sampler_wish.h"
#include "base/ids.h"

namespace salvage::api {

// Whose words the request and its answer are in.
enum class Dialect {
  kChat,         // OpenAI, POST /v1/chat/completions
  kCompletions,  // OpenAI, POST /v1/completions
  kResponses,    // OpenAI, POST /v1/responses, without stored state
  kMessages,     // Anthropic, POST /v1/messages
  kLlama,        // llama.cpp, POST /completion
};

Dress dress_of(Dialect dialect);

// Texts and token ids, one after another; most often one text.
using PromptPart = std::variant<std::string, std::vector<TokenId>>;
using Prompt = std::vector<PromptPart>;

enum class ToolChoice { kAuto, kNone, kRequired };

// Whether the last message is the beginning of the answer, and which part of it goes on.
enum class Continuation { kNone, kAuto, kContent, kReasoning };

struct ChatWish {
  // [{"role": system | user | assistant | tool, "content": text or [{"type": "text", "text"}],
  //   "reasoning_content"?, "name"?, "tool_call_id"?,
  //   "tool_calls"?: [{"id", "type": "function", "function": {"name", "arguments": text}}]}]
  Json messages = Json::array();
  // [{"type": "function", "function": {"name", "description", "parameters"}}]. Where the client
  // chose one tool or some, only those are here.
  Json tools = Json::array();
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::optional<bool> parallel_tool_calls;  // unset: what the template can
  Json template_kwargs = Json::object();
  std::optional<bool> enable_thinking;
  std::string reasoning_format;  // none, auto, deepseek, deepseek-legacy; or empty
  std::optional<std::int32_t> reasoning_tokens_max;  // unset: no bound
  std::string reasoning_budget_message;  // what ends the reasoning when they are used up
  bool add_generation_prompt = true;
  Continuation continuation = Continuation::kNone;
};

struct GenerateRequest {
  Dialect dialect = Dialect::kChat;
  std::string model;  // as the client spells it; empty: whichever is loaded
  std::string user;   // whom the client answers; for the usage log

  std::optional<ChatWish> chat;  // or
  std::vector<Prompt> prompts;   // each answered by itself

  SamplerWish sampler;
  std::optional<Json> json_schema;          // the answer follows it; an object or a boolean
  std::string grammar;                      // GBNF
  std::optional<std::uint32_t> tokens_max;  // unset: to the end of the context; 0: read the prompt
  // Of the answer, from its first token on; it ends behind the line that is being written then.
  std::optional<std::int64_t> predict_ms_max;
  std::vector<std::string> stop;
  std::uint32_t choices = 1;                  // answers to each prompt
  std::optional<std::uint32_t> logprobs;      // set: of each token, and of so many alternatives
  bool probabilities_after_sampling = false;  // instead of the model's own

  std::int32_t priority = 0;  // "service_tier": flex -1, priority 1; the higher goes first

  bool cache_prompt = true;

  bool stream = false;
  bool include_usage = false;
  bool return_progress = false;
  bool timings_per_token = false;
  bool return_tokens = false;
  bool echo = false;  // the prompt is repeated before the answer
  // Seconds of silence before a stream is pinged; 0: never. Unset: as the server does.
  std::optional<std::uint32_t> ping_seconds;
  std::vector<std::string> response_fields;  // llama.cpp: only these of the last JSON
  std::vector<std::string> custom_tools;     // Responses: tools of free text, made functions here
  Json response_echo = Json::object();       // Responses: fields that the answer repeats
};

// What the reader of a request must know of the cluster.
struct ParseLimits {
  std::uint32_t choices_max = 0;      // sequences of the pipeline; 0: not known, any
  std::uint32_t vocabulary_size = 0;  // token ids are below; 0: not known, any
};

// The one way in: JSON of `dialect` as it came. Pure, any thread.
Parsed<GenerateRequest> parse_request(Dialect dialect, std::string_view body,
                                      const ParseLimits& limits = {});

// A body as a JSON object, within kBodyLimits.
Parsed<Json> parse_object(std::string_view body);

}  // namespace salvage::api
