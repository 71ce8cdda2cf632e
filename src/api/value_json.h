#pragma once

// The small values that answers of several dialects hold, as JSON. Pure, any thread.

#include <span>
#include <string_view>

#include "api/events.h"

namespace salvage::api {

Json bytes_json(std::string_view bytes);  // as numbers

Json openai_usage(const Usage& usage);
Json anthropic_usage(const Usage& usage);
Json responses_usage(const Usage& usage);
Json timings_json(const Timings& timings);           // as llama.cpp writes them
Json progress_json(const PromptProgress& progress);  // so too
Json progress_news(const PromptProgress& progress);  // for our own page

// "stop" or "length", or "tool_calls" for an answer that has some.
std::string_view openai_reason(StopReason reason, bool has_calls);
std::string_view anthropic_reason(StopReason reason, bool has_calls);
std::string_view llama_reason(StopReason reason);

// [{"token", "logprob", "bytes", "top_logprobs"}]
Json openai_logprobs(std::span<const TokenLogprob> tokens);
// With ids; after sampling, probabilities instead of their logarithms.
Json llama_probabilities(std::span<const TokenLogprob> tokens, bool after_sampling);

}  // namespace salvage::api
