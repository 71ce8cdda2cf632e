#include "engine/llama/llama_sampler_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/llama/handles.h"

namespace salvage::engine {
namespace {

constexpr float kGreedyBelow = 0.001F;  // Logits divided by less overflow; nobody can tell anyway.
constexpr float kTemperatureMax = 100.0F;
constexpr float kRepeatPenaltyMax = 100.0F;
constexpr std::int32_t kRepeatLastMax = 65536;

// Comparisons are written so that NaN fails them.
Result<void> check_options(const SamplingOptions& options) {
  const auto refuse = [](const char* name, double value, const char* range) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}; it can be {}", name, value, range));
  };
  if (!(options.temperature >= 0 && options.temperature <= kTemperatureMax)) {
    return refuse("temperature", options.temperature, "0 to 100");
  }
  if (options.top_k < 0) return refuse("top_k", options.top_k, "0 (all) or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return refuse("top_p", options.top_p, "above 0 up to 1");
  }
  if (!(options.min_p >= 0 && options.min_p <= 1)) return refuse("min_p", options.min_p, "0 to 1");
  if (!(options.repeat_penalty > 0 && options.repeat_penalty <= kRepeatPenaltyMax)) {
    return refuse("repeat_penalty", options.repeat_penalty, "above 0 up to 100");
  }
  if (options.repeat_last_n < 0 || options.repeat_last_n > kRepeatLastMax) {
    return refuse("repeat_last_n", options.repeat_last_n, "0 to 65536");
  }
  return {};
}

// libllama draws a seed from the clock for one special value; every seed of ours is repeatable.
std::uint32_t seed_of(std::uint64_t seed) {
  const auto folded = static_cast<std::uint32_t>(seed ^ (seed >> 32));
  return folded == LLAMA_DEFAULT_SEED ? folded - 1 : folded;
}

bool penalises(const SamplingOptions& options) {
  return options.repeat_penalty != 1.0F && options.repeat_last_n > 0;
}

// 0 = all. A penalty below 1 lifts tokens from anywhere, so no number is enough then.
std::uint32_t candidates_for(const SamplingOptions& options, bool greedy) {
  const std::uint32_t best = greedy ? 1U : static_cast<std::uint32_t>(options.top_k);
  if (best == 0 || !penalises(options)) return best;
  if (options.repeat_penalty < 1) return 0;
  return best + static_cast<std::uint32_t>(options.repeat_last_n);
}

// The order of merit: higher logits first, of equal ones the lower id; NaN behind everything.
bool better(const llama_token_data& a, const llama_token_data& b) {
  if (a.logit != b.logit) return a.logit > b.logit;
  return a.id < b.id;
}

float comparable(float logit) {
  return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
}

class LlamaSampler final : public Sampler {
 public:
  LlamaSampler(SamplerHandle chain, std::uint32_t wanted, std::uint32_t vocabulary_size)
      : chain_(std::move(chain)), wanted_(wanted), vocabulary_size_(vocabulary_size) {}

  std::uint32_t candidates_wanted() const override { return wanted_; }
  TokenId choose(std::span<const float> logits) override;
  TokenId choose(std::span<const TokenId> ids, std::span<const float> logits) override;
  void accept(TokenId token) override;

 private:
  void offer(TokenId id, float logit);
  TokenId choose_offered();

  SamplerHandle chain_;
  std::uint32_t wanted_;
  std::uint32_t vocabulary_size_;
  // With a bound: a heap of the best so far, its worst on top. Kept between tokens.
  std::vector<llama_token_data> candidates_;
};

void LlamaSampler::offer(TokenId id, float logit) {
  const llama_token_data candidate{.id = id, .logit = comparable(logit), .p = 0};
  if (wanted_ == 0 || candidates_.size() < wanted_) {
    candidates_.push_back(candidate);
    if (wanted_ != 0) std::push_heap(candidates_.begin(), candidates_.end(), better);
    return;
  }
  if (!better(candidate, candidates_.front())) return;
  std::pop_heap(candidates_.begin(), candidates_.end(), better);
  candidates_.back() = candidate;
  std::push_heap(candidates_.begin(), candidates_.end(), better);
}

TokenId LlamaSampler::choose(std::span<const float> logits) {
  candidates_.clear();
  for (std::size_t id = 0; id < logits.size(); ++id) offer(static_cast<TokenId>(id), logits[id]);
  return choose_offered();
}

TokenId LlamaSampler::choose(std::span<const TokenId> ids, std::span<const float> logits) {
  candidates_.clear();
  const std::size_t count = std::min(ids.size(), logits.size());
  for (std::size_t i = 0; i < count; ++i) offer(ids[i], logits[i]);
  return choose_offered();
}

TokenId LlamaSampler::choose_offered() {
  if (candidates_.empty()) return LLAMA_TOKEN_NULL;
  std::sort(candidates_.begin(), candidates_.end(),
            [](const llama_token_data& a, const llama_token_data& b) { return a.id < b.id; });
  llama_token_data_array array{
      .data = candidates_.data(), .size = candidates_.size(), .selected = -1, .sorted = false};
  llama_sampler_apply(chain_.get(), &array);
  if (array.selected < 0 || static_cast<std::size_t>(array.selected) >= array.size) {
    return LLAMA_TOKEN_NULL;
  }
  return array.data[array.selected].id;
}

void LlamaSampler::accept(TokenId token) {
  if (token < 0 || static_cast<std::uint32_t>(token) >= vocabulary_size_) return;
  llama_sampler_accept(chain_.get(), token);
}

}  // namespace

Result<std::unique_ptr<Sampler>> make_llama_sampler(const SamplingOptions& options,
                                                    std::uint32_t vocabulary_size) {
  RETURN_IF_ERROR(check_options(options));
  const bool greedy = options.temperature < kGreedyBelow;
  llama_sampler_chain_params params = llama_sampler_chain_default_params();
  params.no_perf = true;
  SamplerHandle chain(llama_sampler_chain_init(params));
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(chain.get(), sampler); };
  if (penalises(options)) {
    add(llama_sampler_init_penalties(static_cast<std::int32_t>(vocabulary_size),
                                     options.repeat_last_n, options.repeat_penalty, 0, 0));
  }
  if (greedy) {
    add(llama_sampler_init_greedy());
  } else {
    if (options.top_k > 0) add(llama_sampler_init_top_k(options.top_k));
    if (options.top_p < 1) add(llama_sampler_init_top_p(options.top_p, 1));
    if (options.min_p > 0) add(llama_sampler_init_min_p(options.min_p, 1));
    add(llama_sampler_init_temp(options.temperature));
    add(llama_sampler_init_dist(seed_of(options.seed)));
  }
  return std::unique_ptr<Sampler>(
      new LlamaSampler(std::move(chain), candidates_for(options, greedy), vocabulary_size));
}

}  // namespace salvage::engine
