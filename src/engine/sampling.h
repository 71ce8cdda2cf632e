#pragma once

// How the next token is chosen: the options a request may set, and the sampler made from them.
// Defaults, names and meanings are llama.cpp's, for its users expect the same answers here.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace salvage::engine {

// The steps that a request may put into an order of its own.
enum class SamplerKind : std::uint8_t {
  kPenalties,
  kDry,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kXtc,
  kTemperature,
  kAdaptiveP,  // Draws the token itself, so it is the last step wherever it stands.
};

struct SamplerName {
  SamplerKind kind;
  std::string_view name;   // as "samplers": ["top_k", ...] has it
  std::string_view alias;  // other clients' word for it
  char letter;             // as "samplers": "edkypmxt" has it
};
inline constexpr std::array<SamplerName, 10> kSamplerNames{
    {{SamplerKind::kPenalties, "penalties", "", 'e'},
     {SamplerKind::kDry, "dry", "", 'd'},
     {SamplerKind::kTopNSigma, "top_n_sigma", "", 's'},
     {SamplerKind::kTopK, "top_k", "", 'k'},
     {SamplerKind::kTypicalP, "typ_p", "typical_p", 'y'},
     {SamplerKind::kTopP, "top_p", "nucleus", 'p'},
     {SamplerKind::kMinP, "min_p", "", 'm'},
     {SamplerKind::kXtc, "xtc", "", 'x'},
     {SamplerKind::kTemperature, "temperature", "temp", 't'},
     {SamplerKind::kAdaptiveP, "adaptive_p", "", 'a'}}};

constexpr std::optional<SamplerKind> sampler_of_name(std::string_view name) {
  for (const SamplerName& entry : kSamplerNames) {
    if (name == entry.name || (!name.empty() && name == entry.alias)) return entry.kind;
  }
  return std::nullopt;
}
constexpr std::optional<SamplerKind> sampler_of_letter(char letter) {
  for (const SamplerName& entry : kSamplerNames) {
    if (letter == entry.letter) return entry.kind;
  }
  return std::nullopt;
}

struct LogitBias {
  TokenId token = 0;
  float bias = 0;  // added to the logit; kBanned: never chosen
};
inline constexpr float kBanned = -std::numeric_limits<float>::infinity();

// What an answer must look like: a GBNF grammar whose rule `root` is the whole answer.
struct AnswerGrammar {
  std::string text;  // empty: anything goes
  // Lazy: anything goes until one of the triggers comes; from there on the grammar holds.
  bool lazy = false;
  std::vector<std::string> trigger_patterns;  // regular expressions over the answer so far
  std::vector<TokenId> trigger_tokens;
  std::vector<TokenId> begun;  // What of it the prompt already ends with; not used when lazy.
};

// How a model marks that it thinks before it answers. A lazy grammar does not hold inside, and a
// budget ends it.
struct Thinking {
  std::vector<TokenId> start;  // empty: this model does not think, or not in marks
  std::vector<std::vector<TokenId>> ends;
  std::vector<TokenId> forced;  // What is written when the budget is spent.
  std::vector<TokenId> begun;   // What of the answer the prompt already ends with.
  std::int32_t budget = -1;     // tokens; -1: no bound
};

struct SamplingOptions {
  std::uint64_t seed = 0;
  float temperature = 0.8F;  // 0 = greedy
  std::int32_t top_k = 40;   // 0 = all
  float top_p = 0.95F;       // 1 = off
  float min_p = 0.05F;       // 0 = off
  float repeat_penalty = 1.0F;
  std::int32_t repeat_last_n = 64;  // tokens that the three penalties look back
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float typical_p = 1;         // 1 = off
  float top_n_sigma = -1;      // 0 and below = off
  float xtc_probability = 0;   // 0 = off
  float xtc_threshold = 0.1F;  // above 0.5 = off
  float dynatemp_range = 0;    // 0 = off
  float dynatemp_exponent = 1;
  float dry_multiplier = 0;  // 0 = off
  float dry_base = 1.75F;
  std::int32_t dry_allowed_length = 2;
  std::int32_t dry_penalty_last_n = 64;
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::int32_t mirostat = 0;  // 0 = off, 1, 2: replaces every step but bias and temperature
  float mirostat_tau = 5;
  float mirostat_eta = 0.1F;
  float adaptive_target = -1;  // below 0 = off; used only where `order` has kAdaptiveP
  float adaptive_decay = 0.9F;
  std::int32_t min_keep = 0;  // candidates that top-p, min-p, typical and XTC leave at least
  std::vector<SamplerKind> order = {
      SamplerKind::kPenalties, SamplerKind::kDry,      SamplerKind::kTopNSigma,
      SamplerKind::kTopK,      SamplerKind::kTypicalP, SamplerKind::kTopP,
      SamplerKind::kMinP,      SamplerKind::kXtc,      SamplerKind::kTemperature};
  std::vector<LogitBias> logit_bias;  // a token's biases add up
  bool ignore_eos = false;            // tokens that end an answer are never chosen
  bool logprobs = false;
  std::int32_t top_logprobs = 0;  // how many of the likeliest tokens logprobs() lists
  // Probabilities among what the steps left, not the model's own; tokens without any aren't listed.
  bool logprobs_after_sampling = false;
  AnswerGrammar grammar;
  Thinking thinking;
};

// The highest logits of a row, in any order, with the logarithm of the sum of exp() over the whole
// row. Borrowed for one call.
struct TopLogits {
  std::span<const TokenId> ids;
  std::span<const float> logits;  // as many
  float log_sum_exp = 0;
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;  // natural logarithm of its probability
};
struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the likeliest first, of equal ones the lower id
};

// A negative id: there was nothing to choose from, or the grammar allows no token of this model.
inline constexpr TokenId kNoToken = -1;

// One a sequence. Not thread safe. For every token of the answer: choose(), then accept().
class Sampler {
 public:
  virtual ~Sampler() = default;
  // How many of the highest logits the next choose() needs to choose, and to report, exactly as
  // from all of them; 0 = all. May change with every accepted token.
  virtual std::uint32_t candidates_wanted() const = 0;
  // Chooses among all logits, index = token id, or among the highest.
  virtual TokenId choose(std::span<const float> logits) = 0;
  virtual TokenId choose(const TopLogits& top) = 0;
  // Of the last choice; empty unless SamplingOptions::logprobs. Valid until the next choice.
  virtual const std::optional<Logprobs>& logprobs() const = 0;
  // Tells the sampler what was chosen.
  virtual void accept(TokenId token) = 0;
  // A token of the prompt: it counts for penalties only.
  virtual void accept_prompt(TokenId token) = 0;
};

}  // namespace salvage::engine
