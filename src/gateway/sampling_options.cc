#include "gateway/sampling_options.h"

#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/random.h"

namespace salvage::gateway {
namespace {

constexpr std::size_t kSeedBytes = 4;

template <typename T>
void take(const std::optional<T>& wish, T& value) {
  if (wish) value = *wish;
}

// How far back something looks: -1 is the whole context.
void take_span(const std::optional<std::int32_t>& wish, std::uint32_t context_tokens,
               std::int32_t& value) {
  if (wish) value = *wish < 0 ? static_cast<std::int32_t>(context_tokens) : *wish;
}

std::uint64_t drawn_seed() {
  const auto hex = random_hex(kSeedBytes);
  return hex ? std::stoull(*hex, nullptr, 16) : 0;
}

// A text's bias is that of each of its tokens.
api::Parsed<void> add_bias(const api::TokenBias& bias, const engine::Vocabulary& vocabulary,
                           std::vector<engine::LogitBias>& out) {
  if (const auto* id = std::get_if<TokenId>(&bias.what)) {
    out.push_back({*id, bias.bias});
    return {};
  }
  const auto tokens = vocabulary.tokenize(std::get<std::string>(bias.what),
                                          {.add_special = false, .parse_special = true});
  if (!tokens) return fail(api::invalid_value("logit_bias", tokens.error().message()));
  for (const TokenId token : *tokens) out.push_back({token, bias.bias});
  return {};
}

// Names that llama.cpp doesn't know either are passed over, as it does.
std::vector<engine::SamplerKind> order_of(const std::vector<std::string>& names) {
  std::vector<engine::SamplerKind> order;
  for (const std::string& name : names) {
    if (const auto kind = engine::sampler_of_name(name)) order.push_back(*kind);
  }
  return order;
}

void take_numbers(const api::SamplerWish& wish, engine::SamplingOptions& options) {
  take(wish.temperature, options.temperature);
  take(wish.dynatemp_range, options.dynatemp_range);
  take(wish.dynatemp_exponent, options.dynatemp_exponent);
  take(wish.top_k, options.top_k);
  take(wish.top_p, options.top_p);
  take(wish.min_p, options.min_p);
  take(wish.top_n_sigma, options.top_n_sigma);
  take(wish.typical_p, options.typical_p);
  take(wish.xtc_probability, options.xtc_probability);
  take(wish.xtc_threshold, options.xtc_threshold);
  take(wish.repeat_penalty, options.repeat_penalty);
  take(wish.presence_penalty, options.presence_penalty);
  take(wish.frequency_penalty, options.frequency_penalty);
  take(wish.dry_multiplier, options.dry_multiplier);
  take(wish.dry_base, options.dry_base);
  take(wish.dry_allowed_length, options.dry_allowed_length);
  take(wish.mirostat, options.mirostat);
  take(wish.mirostat_tau, options.mirostat_tau);
  take(wish.mirostat_eta, options.mirostat_eta);
  take(wish.adaptive_target, options.adaptive_target);
  take(wish.adaptive_decay, options.adaptive_decay);
  take(wish.min_keep, options.min_keep);
}

}  // namespace

api::Parsed<engine::SamplingOptions> sampling_options(const api::GenerateRequest& request,
                                                      const engine::Vocabulary& vocabulary,
                                                      std::uint32_t context_tokens) {
  const api::SamplerWish& wish = request.sampler;
  engine::SamplingOptions options;
  options.seed = wish.seed ? *wish.seed : drawn_seed();
  take_numbers(wish, options);
  take_span(wish.repeat_last_n, context_tokens, options.repeat_last_n);
  take_span(wish.dry_penalty_last_n, context_tokens, options.dry_penalty_last_n);
  if (!wish.dry_sequence_breakers.empty()) {
    options.dry_sequence_breakers = wish.dry_sequence_breakers;
  }
  if (!wish.samplers.empty()) options.order = order_of(wish.samplers);
  for (const api::TokenBias& bias : wish.logit_bias) {
    RETURN_IF_ERROR(add_bias(bias, vocabulary, options.logit_bias));
  }
  options.ignore_eos = wish.ignore_eos;
  options.logprobs = request.logprobs.has_value();
  options.top_logprobs = static_cast<std::int32_t>(request.logprobs.value_or(0));
  options.logprobs_after_sampling = request.probabilities_after_sampling;
  return options;
}

api::Json default_settings() {
  const engine::SamplingOptions options;
  // As many digits as the number was written with: 0.8, not 0.800000011920929.
  const auto number = [](float value) { return std::stod(fmt::format("{}", value)); };
  api::Json names = api::Json::array();
  for (const engine::SamplerKind kind : options.order) {
    for (const engine::SamplerName& known : engine::kSamplerNames) {
      if (known.kind == kind) names.push_back(known.name);
    }
  }
  constexpr std::uint32_t kDrawn = 0xFFFFFFFF;  // llama.cpp's word for a seed that is drawn
  return {{"seed", kDrawn},
          {"temperature", number(options.temperature)},
          {"dynatemp_range", number(options.dynatemp_range)},
          {"dynatemp_exponent", number(options.dynatemp_exponent)},
          {"top_k", options.top_k},
          {"top_p", number(options.top_p)},
          {"min_p", number(options.min_p)},
          {"top_n_sigma", number(options.top_n_sigma)},
          {"xtc_probability", number(options.xtc_probability)},
          {"xtc_threshold", number(options.xtc_threshold)},
          {"typical_p", number(options.typical_p)},
          {"repeat_last_n", options.repeat_last_n},
          {"repeat_penalty", number(options.repeat_penalty)},
          {"presence_penalty", number(options.presence_penalty)},
          {"frequency_penalty", number(options.frequency_penalty)},
          {"dry_multiplier", number(options.dry_multiplier)},
          {"dry_base", number(options.dry_base)},
          {"dry_allowed_length", options.dry_allowed_length},
          {"dry_penalty_last_n", options.dry_penalty_last_n},
          {"mirostat", options.mirostat},
          {"mirostat_tau", number(options.mirostat_tau)},
          {"mirostat_eta", number(options.mirostat_eta)},
          {"adaptive_target", number(options.adaptive_target)},
          {"adaptive_decay", number(options.adaptive_decay)},
          {"max_tokens", -1},
          {"n_predict", -1},
          {"ignore_eos", options.ignore_eos},
          {"stream", false},
          {"n_probs", 0},
          {"min_keep", options.min_keep},
          {"samplers", std::move(names)},
          {"timings_per_token", false}};
}

}  // namespace salvage::gateway
