#pragma once

// How a client wants tokens chosen: each of llama.cpp's sampler parameters, unset where the client
// said nothing and the model's or server's own default counts. Values here are within their range.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/fields.h"
#include "base/ids.h"

namespace salvage::api {

// Makes a token, or each token of a text, more or less likely.
struct TokenBias {
  std::variant<TokenId, std::string> what;
  float bias = 0;  // added to the logit; minus infinity forbids the token
  friend bool operator==(const TokenBias&, const TokenBias&) = default;
};

struct SamplerWish {
  std::optional<std::uint64_t> seed;  // unset: a new one for each answer
  std::optional<float> temperature;   // 0: the likeliest token
  std::optional<float> dynatemp_range;
  std::optional<float> dynatemp_exponent;
  std::optional<std::int32_t> top_k;  // 0: all
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> top_n_sigma;  // below 0: off
  std::optional<float> typical_p;
  std::optional<float> xtc_probability;
  std::optional<float> xtc_threshold;
  std::optional<std::int32_t> repeat_last_n;  // -1: the whole context
  std::optional<float> repeat_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<float> dry_multiplier;
  std::optional<float> dry_base;
  std::optional<std::int32_t> dry_allowed_length;
  std::optional<std::int32_t> dry_penalty_last_n;  // -1: the whole context
  std::vector<std::string> dry_sequence_breakers;  // empty: the default
  std::optional<std::int32_t> mirostat;            // 0, 1 or 2
  std::optional<float> mirostat_tau;
  std::optional<float> mirostat_eta;
  std::optional<float> adaptive_target;  // below 0: off
  std::optional<float> adaptive_decay;
  std::optional<std::int32_t> min_keep;
  bool ignore_eos = false;
  std::vector<TokenBias> logit_bias;
  std::vector<std::string> samplers;  // llama.cpp's names, in order; empty: the default
  friend bool operator==(const SamplerWish&, const SamplerWish&) = default;
};

void read_sampler(const Fields& fields, SamplerWish& wish);

}  // namespace salvage::api
