#include "engine/sampling_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace salvage::engine {
namespace {

constexpr float kGreedyBelow = 0.001F;  // Logits divided by less overflow; nobody can tell anyway.
constexpr float kPenaltyMax = 100;
constexpr float kFactorMax = 100;
constexpr float kBiasMax = 1e6F;
constexpr std::int32_t kCountMax = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kLookBackMax = 1 << 20;  // tokens, which a step keeps
constexpr std::int32_t kTopLogprobsMax = 1024;
constexpr std::size_t kOrderMax = 32;
constexpr std::size_t kBreakersMax = 32;
constexpr std::size_t kBreakerBytesMax = 256;
constexpr std::size_t kBiasCountMax = 65536;
// Each candidate of a list is compared with each bias.
constexpr std::size_t kListBiasesMax = 128;
// A candidate of a list is an id and a logit: a list of half the vocabulary weighs as much as all
// logits, and no frame has more than 65536.
constexpr std::uint32_t kListMax = 16384;

Result<void> refuse_option(const char* name, std::string why) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", name, why));
}

template <typename Number>
struct Ranged {
  const char* name;
  Number value;
  Number low;
  Number high;
};

// Written so that NaN fails.
template <typename Number>
Result<void> check_range(const Ranged<Number>& option) {
  if (option.value >= option.low && option.value <= option.high) return {};
  return refuse_option(option.name, fmt::format("{} is out of range; it can be {} to {}",
                                                option.value, option.low, option.high));
}

Result<void> check_reals(const SamplingOptions& o) {
  const float tiny = std::numeric_limits<float>::min();
  const auto options = std::to_array<Ranged<float>>({
      {"temperature", o.temperature, 0, kFactorMax},
      {"top_p", o.top_p, 0, 1},
      {"min_p", o.min_p, 0, 1},
      {"typical_p", o.typical_p, 0, 1},
      {"top_n_sigma", o.top_n_sigma, -kFactorMax, kFactorMax},
      {"xtc_probability", o.xtc_probability, 0, 1},
      {"xtc_threshold", o.xtc_threshold, 0, 1},
      {"dynatemp_range", o.dynatemp_range, 0, kFactorMax},
      {"dynatemp_exponent", o.dynatemp_exponent, 0, kFactorMax},
      {"repeat_penalty", o.repeat_penalty, tiny, kFactorMax},
      {"presence_penalty", o.presence_penalty, -kPenaltyMax, kPenaltyMax},
      {"frequency_penalty", o.frequency_penalty, -kPenaltyMax, kPenaltyMax},
      {"dry_multiplier", o.dry_multiplier, 0, kFactorMax},
      {"dry_base", o.dry_base, 0, kFactorMax},
      {"mirostat_tau", o.mirostat_tau, 0, kFactorMax},
      {"mirostat_eta", o.mirostat_eta, 0, kFactorMax},
      {"adaptive_target", o.adaptive_target, -kFactorMax, 1},
      {"adaptive_decay", o.adaptive_decay, 0, 0.99F},
  });
  for (const auto& option : options) RETURN_IF_ERROR(check_range(option));
  return {};
}

Result<void> check_counts(const SamplingOptions& o) {
  const auto options = std::to_array<Ranged<std::int32_t>>({
      {"top_k", o.top_k, 0, kCountMax},
      {"repeat_last_n", o.repeat_last_n, 0, kLookBackMax},
      {"dry_allowed_length", o.dry_allowed_length, 0, kCountMax},
      {"dry_penalty_last_n", o.dry_penalty_last_n, 0, kLookBackMax},
      {"mirostat", o.mirostat, 0, 2},
      {"min_keep", o.min_keep, 0, kCountMax},
      {"top_logprobs", o.top_logprobs, 0, kTopLogprobsMax},
      {"thinking_budget", o.thinking.budget, -1, kCountMax},
  });
  for (const auto& option : options) RETURN_IF_ERROR(check_range(option));
  return {};
}

Result<void> check_biases(const SamplingOptions& options, std::uint32_t vocabulary_size) {
  if (options.logit_bias.size() > kBiasCountMax) {
    return refuse_option("logit_bias", fmt::format("{} biases; at most {} can be used",
                                                   options.logit_bias.size(), kBiasCountMax));
  }
  for (const LogitBias& bias : options.logit_bias) {
    if (bias.token < 0 || static_cast<std::uint32_t>(bias.token) >= vocabulary_size) {
      return refuse_option("logit_bias", fmt::format("this model has tokens 0 to {}, but no {}",
                                                     vocabulary_size - 1, bias.token));
    }
    if (!(bias.bias == kBanned || std::abs(bias.bias) <= kBiasMax)) {
      return refuse_option("logit_bias", fmt::format("a bias of {} is out of range", bias.bias));
    }
  }
  return {};
}

Result<void> check_lists(const SamplingOptions& options) {
  if (options.order.size() > kOrderMax) {
    return refuse_option("samplers", fmt::format("{} steps; at most {} can be used",
                                                 options.order.size(), kOrderMax));
  }
  if (options.dry_sequence_breakers.size() > kBreakersMax) {
    return refuse_option("dry_sequence_breakers",
                         fmt::format("{} texts; at most {} can be used",
                                     options.dry_sequence_breakers.size(), kBreakersMax));
  }
  for (const std::string& breaker : options.dry_sequence_breakers) {
    if (breaker.empty() || breaker.size() > kBreakerBytesMax) {
      return refuse_option("dry_sequence_breakers",
                           fmt::format("a text has 1 to {} bytes", kBreakerBytesMax));
    }
  }
  return {};
}

bool orders(const SamplingOptions& options, SamplerKind kind) {
  return std::find(options.order.begin(), options.order.end(), kind) != options.order.end();
}

// The tokens that steps before the bound may push down; -1 where they need or may lift any token.
std::int64_t pushed_down(const SamplingOptions& options, SamplerKind kind) {
  if (!active(options, kind)) return 0;
  switch (kind) {
    case SamplerKind::kPenalties: {
      const bool lifts = options.repeat_penalty < 1 || options.presence_penalty < 0 ||
                         options.frequency_penalty < 0;
      return lifts ? -1 : options.repeat_last_n;
    }
    case SamplerKind::kDry:
      return options.dry_penalty_last_n;
    case SamplerKind::kTemperature:
      return options.dynatemp_range > 0 ? -1 : 0;
    case SamplerKind::kMinP:  // A threshold below the best: the order of merit stays.
    case SamplerKind::kTopK:
    case SamplerKind::kAdaptiveP:  // comes last
      return 0;
    case SamplerKind::kTopNSigma:
    case SamplerKind::kTypicalP:
    case SamplerKind::kTopP:
    case SamplerKind::kXtc:
      return -1;
  }
  return -1;
}

}  // namespace

Result<void> check_sampling(const SamplingOptions& options, std::uint32_t vocabulary_size) {
  RETURN_IF_ERROR(check_reals(options));
  RETURN_IF_ERROR(check_counts(options));
  RETURN_IF_ERROR(check_biases(options, vocabulary_size));
  return check_lists(options);
}

bool active(const SamplingOptions& options, SamplerKind kind) {
  switch (kind) {
    case SamplerKind::kPenalties:
      return options.repeat_last_n > 0 &&
             (options.repeat_penalty != 1 || options.presence_penalty != 0 ||
              options.frequency_penalty != 0);
    case SamplerKind::kDry:
      return options.dry_multiplier > 0 && options.dry_base >= 1 && options.dry_penalty_last_n > 0;
    case SamplerKind::kTopNSigma:
      return options.top_n_sigma > 0;
    case SamplerKind::kTopK:
      return options.top_k > 0;
    case SamplerKind::kTypicalP:
      return options.typical_p < 1;
    case SamplerKind::kTopP:
      return options.top_p < 1;
    case SamplerKind::kMinP:
      return options.min_p > 0;
    case SamplerKind::kXtc:
      return options.xtc_probability > 0 && options.xtc_threshold <= 0.5F;
    case SamplerKind::kTemperature:
      return true;
    case SamplerKind::kAdaptiveP:
      return options.adaptive_target >= 0;
  }
  return false;
}

bool greedy(const SamplingOptions& options) {
  const auto acts = [&](SamplerKind kind) {
    return orders(options, kind) && active(options, kind);
  };
  return options.mirostat == 0 && options.temperature < kGreedyBelow &&
         options.dynatemp_range == 0 && orders(options, SamplerKind::kTemperature) &&
         !acts(SamplerKind::kTypicalP) && !acts(SamplerKind::kXtc) &&
         !acts(SamplerKind::kAdaptiveP);
}

std::uint32_t list_max(std::uint32_t vocabulary_size) {
  return std::min(vocabulary_size / 2, kListMax);
}

std::uint32_t candidates_enough(const SamplingOptions& options, std::uint32_t vocabulary_size,
                                std::size_t banned_count) {
  const auto& biases = options.logit_bias;
  const bool lifts = std::any_of(biases.begin(), biases.end(),
                                 [](const LogitBias& bias) { return bias.bias > 0; });
  if (lifts || options.mirostat != 0 || biases.size() + banned_count > kListBiasesMax) return 0;
  const bool draws = !greedy(options);
  std::int64_t enough = static_cast<std::int64_t>(biases.size() + banned_count);
  bool bounded = false;
  for (const SamplerKind kind : options.order) {
    bounded = draws ? kind == SamplerKind::kTopK && active(options, kind)
                    : kind == SamplerKind::kTemperature;
    if (bounded) break;
    // Without chance only what moves the best token matters.
    const bool matters = draws || kind == SamplerKind::kPenalties || kind == SamplerKind::kDry;
    const std::int64_t more = matters ? pushed_down(options, kind) : 0;
    if (more < 0) return 0;
    enough += more;
  }
  if (!bounded) return 0;
  enough += draws ? options.top_k : 1;
  return enough > list_max(vocabulary_size) ? 0 : static_cast<std::uint32_t>(enough);
}

}  // namespace salvage::engine
