#include "engine/llama/llama_sampler_chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include <reasoning-budget.h>

#include "engine/llama/handles.h"
#include "engine/llama/sampler_steps.h"
#include "engine/sampling_rules.h"

namespace salvage::engine {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
// Tokens that tell a grammar that waits from one that holds, besides those that end an answer.
constexpr std::size_t kProbeCount = 32;

// The order of merit: higher logits first, of equal ones the lower id; NaN behind everything.
bool better(const llama_token_data& a, const llama_token_data& b) {
  if (a.logit != b.logit) return a.logit > b.logit;
  return a.id < b.id;
}

float comparable(float logit) {
  return std::isnan(logit) ? kNever : logit;
}

// The logits of one position: all of them, index = id, or some with their ids.
struct LogitsRow {
  std::span<const TokenId> ids;  // empty: all logits
  std::span<const float> logits;

  std::size_t size() const {
    return ids.empty() ? logits.size() : std::min(ids.size(), logits.size());
  }
  TokenId id(std::size_t index) const {
    return ids.empty() ? static_cast<TokenId>(index) : ids[index];
  }
};

float log_sum_exp_of(std::span<const float> logits) {
  float highest = kNever;
  for (const float logit : logits) highest = std::max(highest, comparable(logit));
  if (std::isinf(highest)) return highest;
  double sum = 0;
  for (const float logit : logits)
    sum += std::exp(static_cast<double>(comparable(logit) - highest));
  return highest + static_cast<float>(std::log(sum));
}

struct SamplerParts {
  SamplerHandle chain;
  SamplerHandle grammar;   // may be null
  SamplerHandle thinking;  // may be null
};

class LlamaSampler final : public Sampler {
 public:
  LlamaSampler(std::shared_ptr<const LlamaVocabulary> vocabulary, SamplerParts parts,
               const SamplingOptions& options)
      : vocabulary_(std::move(vocabulary)),
        parts_(std::move(parts)),
        size_(vocabulary_->size()),
        enough_(candidates_enough(options, size_, banned_tokens(options, *vocabulary_).size())),
        lazy_(options.grammar.lazy),
        reports_(options.logprobs),
        reports_left_(options.logprobs_after_sampling),
        report_count_(static_cast<std::size_t>(options.top_logprobs)) {
    probe();
  }

  std::uint32_t candidates_wanted() const override;
  TokenId choose(std::span<const float> logits) override;
  TokenId choose(const TopLogits& top) override;
  const std::optional<Logprobs>& logprobs() const override { return logprobs_; }
  void accept(TokenId token) override;
  void accept_prompt(TokenId token) override;

 private:
  TokenId choose_from(const LogitsRow& row);
  TokenId draw(const LogitsRow& row);
  TokenId draw_allowed(const LogitsRow& row);
  void offer(const LogitsRow& row, std::uint32_t count);
  TokenId run_chain();
  bool known(TokenId token) const {
    return token >= 0 && static_cast<std::uint32_t>(token) < size_;
  }
  void apply(const SamplerHandle& sampler);
  bool forced() const;
  bool grammar_holds() const;
  bool allowed(TokenId token) const;
  void accept_in_grammar(TokenId token);
  void probe();
  void report(const LogitsRow& row, TokenId chosen, float log_sum_exp);
  void report_left(TokenId chosen);

  std::shared_ptr<const LlamaVocabulary> vocabulary_;  // parts_ point into it
  SamplerParts parts_;
  std::uint32_t size_;  // of the vocabulary
  std::uint32_t enough_;
  bool lazy_;
  bool awaits_trigger_ = false;
  bool stuck_ =
      false;  // The grammar met a token that it does not allow; it must not be asked again.
  bool reports_;
  bool reports_left_;  // of what the chain left, that is
  std::size_t report_count_;
  std::optional<Logprobs> logprobs_;
  // Kept between tokens. With a bound: a heap of the best so far, its worst on top.
  std::vector<llama_token_data> candidates_;
  llama_token_data_array array_{};  // over candidates_
};

void LlamaSampler::offer(const LogitsRow& row, std::uint32_t count) {
  candidates_.clear();
  for (std::size_t i = 0; i < row.size(); ++i) {
    const llama_token_data candidate{.id = row.id(i), .logit = comparable(row.logits[i]), .p = 0};
    if (!known(candidate.id)) continue;
    if (count == 0 || candidates_.size() < count) {
      candidates_.push_back(candidate);
      if (count != 0) std::push_heap(candidates_.begin(), candidates_.end(), better);
    } else if (better(candidate, candidates_.front())) {
      std::pop_heap(candidates_.begin(), candidates_.end(), better);
      candidates_.back() = candidate;
      std::push_heap(candidates_.begin(), candidates_.end(), better);
    }
  }
  std::sort(candidates_.begin(), candidates_.end(),
            [](const llama_token_data& a, const llama_token_data& b) { return a.id < b.id; });
  array_ = {
      .data = candidates_.data(), .size = candidates_.size(), .selected = -1, .sorted = false};
}

void LlamaSampler::apply(const SamplerHandle& sampler) {
  if (sampler) llama_sampler_apply(sampler.get(), &array_);
}

TokenId LlamaSampler::run_chain() {
  apply(parts_.chain);
  if (array_.selected < 0 || static_cast<std::size_t>(array_.selected) >= array_.size) {
    return kNoToken;
  }
  return array_.data[array_.selected].id;
}

TokenId LlamaSampler::draw(const LogitsRow& row) {
  offer(row, forced() ? 0 : enough_);
  if (candidates_.empty()) return kNoToken;
  apply(parts_.thinking);
  return run_chain();
}

// Holds every candidate against the grammar first.
TokenId LlamaSampler::draw_allowed(const LogitsRow& row) {
  offer(row, 0);
  apply(parts_.thinking);
  apply(parts_.grammar);
  const auto best = std::min_element(candidates_.begin(), candidates_.end(), better);
  if (best == candidates_.end() || best->logit == kNever) {
    // A list may lack what the grammar wants, but not the end: see probe().
    for (const TokenId token : vocabulary_->ending_tokens()) {
      if (!row.ids.empty() && allowed(token)) return token;
    }
    return kNoToken;
  }
  const TokenId best_id = best->id;
  const TokenId token = run_chain();
  return token != kNoToken && allowed(token) ? token : best_id;
}

TokenId LlamaSampler::choose_from(const LogitsRow& row) {
  if (stuck_) return kNoToken;
  const TokenId token = draw(row);
  if (token == kNoToken || !grammar_holds() || allowed(token)) return token;
  return draw_allowed(row);
}

TokenId LlamaSampler::choose(std::span<const float> logits) {
  const LogitsRow row{{}, logits};
  const TokenId token = choose_from(row);
  if (reports_) report(row, token, log_sum_exp_of(logits));
  return token;
}

TokenId LlamaSampler::choose(const TopLogits& top) {
  logprobs_.reset();
  if (top.ids.empty()) return kNoToken;
  const LogitsRow row{top.ids, top.logits};
  const TokenId token = choose_from(row);
  if (reports_) report(row, token, top.log_sum_exp);
  return token;
}

// A chain without chance leaves one token, and says nothing of probabilities.
void LlamaSampler::report_left(TokenId chosen) {
  Logprobs logprobs{.chosen = {chosen, 0}, .top = {}};
  double sum = 0;
  for (std::size_t i = 0; i < array_.size; ++i) sum += array_.data[i].p;
  std::vector<llama_token_data> left;
  for (std::size_t i = 0; i < array_.size && sum > 0; ++i) {
    llama_token_data token = array_.data[i];
    token.logit = static_cast<float>(std::log(token.p / sum));
    if (token.id == chosen) logprobs.chosen.logprob = token.logit;
    if (token.p > 0) left.push_back(token);
  }
  if (left.empty() && chosen != kNoToken) left.push_back({chosen, 0, 1});
  const std::size_t count = std::min(left.size(), report_count_);
  std::partial_sort(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count), left.end(),
                    better);
  for (std::size_t i = 0; i < count; ++i) logprobs.top.push_back({left[i].id, left[i].logit});
  logprobs_ = std::move(logprobs);
}

void LlamaSampler::report(const LogitsRow& row, TokenId chosen, float log_sum_exp) {
  if (reports_left_) return report_left(chosen);
  Logprobs logprobs{.chosen = {chosen, kNever}, .top = {}};
  std::vector<llama_token_data> best;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const llama_token_data candidate{.id = row.id(i), .logit = comparable(row.logits[i]), .p = 0};
    if (candidate.id == chosen) logprobs.chosen.logprob = candidate.logit - log_sum_exp;
    if (report_count_ == 0) continue;
    if (best.size() == report_count_ && !better(candidate, best.front())) continue;
    if (best.size() == report_count_) {
      std::pop_heap(best.begin(), best.end(), better);
      best.pop_back();
    }
    best.push_back(candidate);
    std::push_heap(best.begin(), best.end(), better);
  }
  std::sort(best.begin(), best.end(), better);
  for (const llama_token_data& token : best) {
    logprobs.top.push_back({token.id, token.logit - log_sum_exp});
  }
  logprobs_ = std::move(logprobs);
}

std::uint32_t LlamaSampler::candidates_wanted() const {
  const bool constrained = grammar_holds() && !awaits_trigger_;
  if (enough_ == 0 || forced() || constrained) return 0;
  const auto reported = reports_ ? static_cast<std::uint32_t>(report_count_) : 0U;
  const std::uint32_t wanted = std::max(enough_, reported);
  return wanted > list_max(size_) ? 0 : wanted;
}

// The mark that ends a thought is being written, whatever the model thinks of it.
bool LlamaSampler::forced() const {
  return parts_.thinking &&
         common_reasoning_budget_get_state(parts_.thinking.get()) == REASONING_BUDGET_FORCING;
}

// A lazy grammar says nothing about thoughts.
bool LlamaSampler::grammar_holds() const {
  if (!parts_.grammar || stuck_) return false;
  if (!parts_.thinking || !lazy_) return true;
  const auto state = common_reasoning_budget_get_state(parts_.thinking.get());
  return state == REASONING_BUDGET_IDLE || state == REASONING_BUDGET_DONE;
}

bool LlamaSampler::allowed(TokenId token) const {
  llama_token_data one{.id = token, .logit = 1, .p = 0};
  llama_token_data_array array{.data = &one, .size = 1, .selected = -1, .sorted = false};
  llama_sampler_apply(parts_.grammar.get(), &array);
  return one.logit != kNever;
}

// A grammar that waits for its trigger allows everything. One that holds forbids the end of the
// answer or, where it allows it, most of what else there is; if it should allow all that is tried
// here, choosing among a list that knows no better still finds the end.
void LlamaSampler::probe() {
  if (!parts_.grammar || stuck_ || (!lazy_ && !awaits_trigger_)) return;
  std::vector<llama_token_data> probes;
  for (const TokenId token : vocabulary_->ending_tokens()) probes.push_back({token, 1, 0});
  const std::size_t stride = std::max<std::size_t>(size_ / kProbeCount, 1);
  for (std::size_t id = 0; id < size_; id += stride) {
    probes.push_back({static_cast<TokenId>(id), 1, 0});
  }
  llama_token_data_array array{
      .data = probes.data(), .size = probes.size(), .selected = -1, .sorted = false};
  llama_sampler_apply(parts_.grammar.get(), &array);
  awaits_trigger_ = std::none_of(probes.begin(), probes.end(),
                                 [](const auto& token) { return token.logit == kNever; });
}

void LlamaSampler::accept_in_grammar(TokenId token) {
  const auto& ending = vocabulary_->ending_tokens();
  const bool ends = std::find(ending.begin(), ending.end(), token) != ending.end();
  if (stuck_ || (ends && !allowed(token))) return;  // libllama aborts at an end that is none.
  try {
    llama_sampler_accept(parts_.grammar.get(), token);
  } catch (const std::exception&) {
    stuck_ = true;
  }
}

void LlamaSampler::accept(TokenId token) {
  if (!known(token)) return;
  const bool held = grammar_holds();  // before the thoughts' end is seen
  if (parts_.thinking) {
    llama_sampler_accept(parts_.thinking.get(), token);
    const bool done =
        common_reasoning_budget_get_state(parts_.thinking.get()) == REASONING_BUDGET_DONE;
    const llama_tokens* end = common_reasoning_budget_get_end_match(parts_.thinking.get());
    // The mark at the thoughts' end may be what the grammar waits for.
    if (parts_.grammar && !held && done && end != nullptr) {
      for (const llama_token part : *end) accept_in_grammar(part);
    }
  }
  if (held) accept_in_grammar(token);
  llama_sampler_accept(parts_.chain.get(), token);
  if (awaits_trigger_) probe();
}

void LlamaSampler::accept_prompt(TokenId token) {
  if (!known(token)) return;
  llama_sampler_accept(parts_.chain.get(), token);
}

}  // namespace

Result<std::unique_ptr<Sampler>> make_llama_sampler(
    const SamplingOptions& options, std::shared_ptr<const LlamaVocabulary> vocabulary) {
  RETURN_IF_ERROR(check_sampling(options, vocabulary->size()));
  SamplerParts parts;
  ASSIGN_OR_RETURN(parts.grammar, make_grammar_sampler(options.grammar, *vocabulary));
  parts.thinking = make_thinking_sampler(options, *vocabulary);
  parts.chain = make_sampler_chain(options, *vocabulary);
  return std::unique_ptr<Sampler>(
      new LlamaSampler(std::move(vocabulary), std::move(parts), options));
}

}  // namespace salvage::engine
