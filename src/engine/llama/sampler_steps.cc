#include "engine/llama/sampler_steps.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <string>

#include <fmt/format.h>
#include <reasoning-budget.h>

#include "engine/llama/backend.h"
#include "engine/llama/grammar_check.h"
#include "engine/sampling_rules.h"

namespace salvage::engine {
namespace {

constexpr std::int32_t kMirostatCandidates = 100;  // as in upstream's servers

// libllama draws a seed from the clock for one special value; every seed of ours is repeatable.
std::uint32_t seed_of(std::uint64_t seed) {
  const auto folded = static_cast<std::uint32_t>(seed ^ (seed >> 32));
  return folded == LLAMA_DEFAULT_SEED ? folded - 1 : folded;
}

class ChainBuilder {
 public:
  ChainBuilder(const SamplingOptions& options, const LlamaVocabulary& vocabulary)
      : options_(options),
        vocabulary_(vocabulary),
        keep_(static_cast<std::size_t>(std::max(options.min_keep, 1))) {
    llama_sampler_chain_params params = llama_sampler_chain_default_params();
    params.no_perf = true;
    chain_.reset(llama_sampler_chain_init(params));
  }

  SamplerHandle build() {
    add_bias();
    if (options_.mirostat != 0) {
      add_mirostat();
    } else if (greedy(options_)) {
      add_greedy();
    } else {
      for (const SamplerKind kind : options_.order) {
        if (active(options_, kind)) add_step(kind);
      }
      add_draw();
    }
    return std::move(chain_);
  }

 private:
  void add(llama_sampler* step) { llama_sampler_chain_add(chain_.get(), step); }

  std::int32_t size() const { return static_cast<std::int32_t>(vocabulary_.size()); }

  void add_bias() {
    std::map<TokenId, float> sums;
    for (const LogitBias& bias : options_.logit_bias) sums[bias.token] += bias.bias;
    for (const TokenId token : banned_tokens(options_, vocabulary_)) sums[token] = kBanned;
    if (sums.empty()) return;
    std::vector<llama_logit_bias> biases;
    biases.reserve(sums.size());
    for (const auto& [token, bias] : sums) biases.push_back({token, bias});
    add(llama_sampler_init_logit_bias(size(), static_cast<std::int32_t>(biases.size()),
                                      biases.data()));
  }

  void add_mirostat() {
    const auto& o = options_;
    add(llama_sampler_init_temp(o.temperature));
    if (o.mirostat == 1) {
      add(llama_sampler_init_mirostat(size(), seed_of(o.seed), o.mirostat_tau, o.mirostat_eta,
                                      kMirostatCandidates));
    } else {
      add(llama_sampler_init_mirostat_v2(seed_of(o.seed), o.mirostat_tau, o.mirostat_eta));
    }
  }

  // Behind a temperature of zero one token is left, which nothing moves any more.
  void add_greedy() {
    for (const SamplerKind kind : options_.order) {
      if (kind == SamplerKind::kTemperature) break;
      const bool moves = kind == SamplerKind::kPenalties || kind == SamplerKind::kDry;
      if (moves && active(options_, kind)) add_step(kind);
    }
    add(llama_sampler_init_greedy());
  }

  void add_draw() {
    const auto& order = options_.order;
    const bool adaptive =
        active(options_, SamplerKind::kAdaptiveP) &&
        std::find(order.begin(), order.end(), SamplerKind::kAdaptiveP) != order.end();
    if (adaptive) {
      add(llama_sampler_init_adaptive_p(options_.adaptive_target, options_.adaptive_decay,
                                        seed_of(options_.seed)));
    } else {
      add(llama_sampler_init_dist(seed_of(options_.seed)));
    }
  }

  void add_step(SamplerKind kind) {
    const auto& o = options_;
    switch (kind) {
      case SamplerKind::kPenalties:
        return add(llama_sampler_init_penalties(size(), o.repeat_last_n, o.repeat_penalty,
                                                o.frequency_penalty, o.presence_penalty));
      case SamplerKind::kDry:
        return add_dry();
      case SamplerKind::kTopNSigma:
        return add(llama_sampler_init_top_n_sigma(o.top_n_sigma));
      case SamplerKind::kTopK:
        return add(llama_sampler_init_top_k(o.top_k));
      case SamplerKind::kTypicalP:
        return add(llama_sampler_init_typical(o.typical_p, keep_));
      case SamplerKind::kTopP:
        return add(llama_sampler_init_top_p(o.top_p, keep_));
      case SamplerKind::kMinP:
        return add(llama_sampler_init_min_p(o.min_p, keep_));
      case SamplerKind::kXtc:
        return add(
            llama_sampler_init_xtc(o.xtc_probability, o.xtc_threshold, keep_, seed_of(o.seed)));
      case SamplerKind::kTemperature:
        return add_temperature();
      case SamplerKind::kAdaptiveP:
        return;  // add_draw()
    }
  }

  void add_temperature() {
    const auto& o = options_;
    if (o.dynatemp_range > 0) {
      add(llama_sampler_init_temp_ext(o.temperature, o.dynatemp_range, o.dynatemp_exponent));
    } else {
      add(llama_sampler_init_temp(o.temperature));
    }
  }

  void add_dry() {
    const auto& o = options_;
    std::vector<const char*> breakers;
    for (const std::string& breaker : o.dry_sequence_breakers) breakers.push_back(breaker.c_str());
    add(llama_sampler_init_dry(vocabulary_.handle(), o.dry_multiplier, o.dry_base,
                               o.dry_allowed_length, o.dry_penalty_last_n, breakers.data(),
                               breakers.size()));
  }

  const SamplingOptions& options_;
  const LlamaVocabulary& vocabulary_;
  std::size_t keep_;
  SamplerHandle chain_;
};

llama_sampler* init_grammar(const AnswerGrammar& grammar, const llama_vocab* vocabulary) {
  if (!grammar.lazy) return llama_sampler_init_grammar(vocabulary, grammar.text.c_str(), "root");
  std::vector<const char*> patterns;
  for (const std::string& pattern : grammar.trigger_patterns) patterns.push_back(pattern.c_str());
  return llama_sampler_init_grammar_lazy_patterns(
      vocabulary, grammar.text.c_str(), "root", patterns.data(), patterns.size(),
      grammar.trigger_tokens.data(), grammar.trigger_tokens.size());
}

tl::unexpected<Error> bad_grammar(std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("grammar: {}", why));
}

}  // namespace

SamplerHandle make_sampler_chain(const SamplingOptions& options,
                                 const LlamaVocabulary& vocabulary) {
  return ChainBuilder(options, vocabulary).build();
}

std::vector<TokenId> banned_tokens(const SamplingOptions& options,
                                   const LlamaVocabulary& vocabulary) {
  const auto suppressed = vocabulary.suppressed_tokens();
  std::vector<TokenId> tokens(suppressed.begin(), suppressed.end());
  if (options.ignore_eos) {
    const auto& ending = vocabulary.ending_tokens();
    tokens.insert(tokens.end(), ending.begin(), ending.end());
  }
  return tokens;
}

Result<SamplerHandle> make_grammar_sampler(const AnswerGrammar& grammar,
                                           const LlamaVocabulary& vocabulary) {
  if (grammar.text.empty()) return SamplerHandle();
  const auto checked = check_grammar(vocabulary.handle(), grammar.text);
  if (!checked) return bad_grammar(checked.error().message());
  try {
    clear_backend_log();
    SamplerHandle sampler(init_grammar(grammar, vocabulary.handle()));
    if (!sampler) {
      return fail(backend_error(ErrorCode::kInvalidArgument, "grammar: libllama refuses it"));
    }
    if (!grammar.lazy) {
      for (const TokenId token : grammar.begun) llama_sampler_accept(sampler.get(), token);
    }
    return sampler;
  } catch (const std::exception& thrown) {
    return bad_grammar(thrown.what());
  }
}

SamplerHandle make_thinking_sampler(const SamplingOptions& options,
                                    const LlamaVocabulary& vocabulary) {
  const Thinking& thinking = options.thinking;
  const bool lazy = !options.grammar.text.empty() && options.grammar.lazy;
  if (thinking.start.empty() || thinking.ends.empty() || (thinking.budget < 0 && !lazy)) return {};
  const std::int32_t budget =
      thinking.budget < 0 ? std::numeric_limits<std::int32_t>::max() : thinking.budget;
  SamplerHandle sampler(common_reasoning_budget_init(vocabulary.handle(), {thinking.start},
                                                     thinking.ends, thinking.forced, budget));
  for (const TokenId token : thinking.begun) llama_sampler_accept(sampler.get(), token);
  return sampler;
}

}  // namespace salvage::engine
