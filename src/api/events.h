#pragma once

// What happens to a request, in no dialect: the one sequence of events that all answers are written
// from. Accepted, then Queued and PromptProgress as often as there is news, then EchoedPrompt if
// asked for, then AnswerDelta, then one Finished for each choice; or Failed, at any time, once, as
// the last.
//
// Text comes in whole UTF-8 characters and never holds a stop text. Tool calls come one after
// another: once a call began, those before it are complete.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/errors.h"
#include "base/ids.h"

namespace salvage::api {

// All cheap checks are passed; from here on a failure is part of the answer.
struct Accepted {
  std::uint32_t prompt_tokens = 0;  // of all prompts together
};

struct Queued {
  std::uint32_t place = 1;   // 1: next
  std::int64_t time_ms = 0;  // since the request was accepted
};

struct PromptProgress {
  std::uint32_t choice = 0;
  std::uint32_t total_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of the total, found in the KV cache
  std::uint32_t done_tokens = 0;    // of the total, cached ones among them
  std::int64_t time_ms = 0;         // since the request was accepted
  std::uint32_t queue_place = 0;    // not begun, for it waits: 1 is next
};

struct TopLogprob {
  TokenId id = 0;
  std::string bytes;  // a token may be half a character
  float logprob = 0;
};

struct TokenLogprob {
  TokenId id = 0;
  std::string bytes;
  float logprob = 0;
  std::vector<TopLogprob> top;
  bool has_logprob = true;  // the first token of a text follows on nothing, so it has none
};

// A prompt's tokens, where it is repeated with logprobs; before the answer's first delta.
struct EchoedPrompt {
  std::uint32_t choice = 0;
  std::vector<TokenLogprob> tokens;
};

struct Timings {
  double queue_ms = 0;  // before; not in clients' timings
  std::uint32_t cached_tokens = 0;
  std::uint32_t prompt_tokens = 0;  // that were computed
  double prompt_ms = 0;
  std::uint32_t answer_tokens = 0;
  double answer_ms = 0;
};

struct ToolCallDelta {
  std::uint32_t index = 0;
  // The whole of both with the call's first delta, nothing later; a call without an id gets one.
  std::string id;
  std::string name;
  std::string arguments;  // more of the JSON
};

struct AnswerDelta {
  std::uint32_t choice = 0;
  std::string reasoning;
  std::string text;
  std::vector<ToolCallDelta> calls;
  std::vector<TokenId> tokens;         // that were computed; their text may come later
  std::vector<TokenLogprob> logprobs;  // of these tokens, if asked for
  std::optional<Timings> timings;      // if asked for
};

enum class StopReason {
  kEndToken,
  kStopText,
  kTokenLimit,
  kTimeLimit,
  kContextFull,
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of the prompt
  std::uint32_t answer_tokens = 0;
  std::uint32_t reasoning_tokens = 0;  // of the answer, as far as they are told apart
};

struct Finished {
  std::uint32_t choice = 0;
  StopReason reason = StopReason::kEndToken;
  std::string stop_text;  // which one, for kStopText
  Usage usage;            // of this choice
  Timings timings;
  std::optional<std::uint32_t> sequence;  // of the KV cache, where the conversation stays
};

struct Failed {
  ApiError error;
};

using AnswerEvent =
    std::variant<Accepted, Queued, PromptProgress, EchoedPrompt, AnswerDelta, Finished, Failed>;

}  // namespace salvage::api
