#include "api/value_json.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace salvage::api {
namespace {

// A forbidden token's logprob is minus infinity, which JSON hasn't; OpenAI writes this for it.
constexpr double kLogprobMin = -9999;

// A float has seven digits; more would only be bytes.
double finite_logprob(float logprob) {
  if (std::isnan(logprob) || logprob < kLogprobMin) return kLogprobMin;
  return std::round(logprob * 1e6) / 1e6;
}

double probability(float logprob) {
  return std::round(std::exp(std::min(finite_logprob(logprob), 0.0)) * 1e9) / 1e9;
}

double rounded(double value) {
  return std::isfinite(value) ? std::round(value * 1000) / 1000 : 0;
}

double ratio(double a, double b) {
  return b > 0 ? rounded(a / b) : 0;
}

template <typename Token>
Json openai_token(const Token& token) {
  Json json{{"token", token.bytes}, {"logprob", finite_logprob(token.logprob)}};
  json["bytes"] = bytes_json(token.bytes);
  return json;
}

template <typename Token>
Json llama_token(const Token& token, bool after_sampling) {
  Json json{{"id", token.id}, {"token", token.bytes}};
  json["bytes"] = bytes_json(token.bytes);
  if (after_sampling) {
    json["prob"] = probability(token.logprob);
  } else {
    json["logprob"] = finite_logprob(token.logprob);
  }
  return json;
}

}  // namespace

Json bytes_json(std::string_view bytes) {
  Json json = Json::array();
  for (const char byte : bytes) json.push_back(static_cast<unsigned char>(byte));
  return json;
}

Json openai_usage(const Usage& usage) {
  Json json{{"prompt_tokens", usage.prompt_tokens},
            {"completion_tokens", usage.answer_tokens},
            {"total_tokens", usage.prompt_tokens + usage.answer_tokens}};
  json["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  if (usage.reasoning_tokens > 0) {
    json["completion_tokens_details"]["reasoning_tokens"] = usage.reasoning_tokens;
  }
  return json;
}

// What was cached doesn't count as input there.
Json anthropic_usage(const Usage& usage) {
  return {
      {"input_tokens", usage.prompt_tokens - std::min(usage.cached_tokens, usage.prompt_tokens)},
      {"cache_creation_input_tokens", 0},
      {"cache_read_input_tokens", usage.cached_tokens},
      {"output_tokens", usage.answer_tokens}};
}

Json responses_usage(const Usage& usage) {
  Json json{{"input_tokens", usage.prompt_tokens}};
  json["input_tokens_details"] = {{"cached_tokens", usage.cached_tokens},
                                  {"cache_write_tokens", 0}};
  json["output_tokens"] = usage.answer_tokens;
  json["output_tokens_details"]["reasoning_tokens"] = usage.reasoning_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.answer_tokens;
  return json;
}

Json timings_json(const Timings& timings) {
  return {{"cache_n", timings.cached_tokens},
          {"prompt_n", timings.prompt_tokens},
          {"prompt_ms", rounded(timings.prompt_ms)},
          {"prompt_per_token_ms", ratio(timings.prompt_ms, timings.prompt_tokens)},
          {"prompt_per_second", ratio(timings.prompt_tokens * 1000.0, timings.prompt_ms)},
          {"predicted_n", timings.answer_tokens},
          {"predicted_ms", rounded(timings.answer_ms)},
          {"predicted_per_token_ms", ratio(timings.answer_ms, timings.answer_tokens)},
          {"predicted_per_second", ratio(timings.answer_tokens * 1000.0, timings.answer_ms)}};
}

Json progress_json(const PromptProgress& progress) {
  Json json{{"total", progress.total_tokens},
            {"cache", progress.cached_tokens},
            {"processed", progress.done_tokens},
            {"time_ms", progress.time_ms}};
  if (progress.queue_place != 0) json["queue_place"] = progress.queue_place;
  return json;
}

Json progress_news(const PromptProgress& progress) {
  return {{"stage", "prefill"},
          {"choice", progress.choice},
          {"done", progress.done_tokens},
          {"total", progress.total_tokens},
          {"cached", progress.cached_tokens},
          {"time_ms", progress.time_ms}};
}

std::string_view openai_reason(StopReason reason, bool has_calls) {
  switch (reason) {
    case StopReason::kEndToken:
    case StopReason::kStopText:
      return has_calls ? "tool_calls" : "stop";
    case StopReason::kTokenLimit:
    case StopReason::kTimeLimit:
    case StopReason::kContextFull:
      return "length";
  }
  return "stop";
}

std::string_view anthropic_reason(StopReason reason, bool has_calls) {
  switch (reason) {
    case StopReason::kEndToken:
      return has_calls ? "tool_use" : "end_turn";
    case StopReason::kStopText:
      return has_calls ? "tool_use" : "stop_sequence";
    case StopReason::kTokenLimit:
    case StopReason::kTimeLimit:
    case StopReason::kContextFull:
      return "max_tokens";
  }
  return "end_turn";
}

std::string_view llama_reason(StopReason reason) {
  switch (reason) {
    case StopReason::kEndToken:
      return "eos";
    case StopReason::kStopText:
      return "word";
    case StopReason::kTokenLimit:
    case StopReason::kTimeLimit:
    case StopReason::kContextFull:
      return "limit";
  }
  return "none";
}

Json openai_logprobs(std::span<const TokenLogprob> tokens) {
  Json list = Json::array();
  for (const TokenLogprob& token : tokens) {
    Json json = openai_token(token);
    Json top = Json::array();
    for (const TopLogprob& other : token.top) top.push_back(openai_token(other));
    json["top_logprobs"] = std::move(top);
    list.push_back(std::move(json));
  }
  return list;
}

Json llama_probabilities(std::span<const TokenLogprob> tokens, bool after_sampling) {
  Json list = Json::array();
  for (const TokenLogprob& token : tokens) {
    Json json = llama_token(token, after_sampling);
    Json top = Json::array();
    for (const TopLogprob& other : token.top) top.push_back(llama_token(other, after_sampling));
    json[after_sampling ? "top_probs" : "top_logprobs"] = std::move(top);
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace salvage::api
