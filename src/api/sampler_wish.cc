#include "api/sampler_wish.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/limits.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

struct RealField {
  const char* key;
  std::optional<float> SamplerWish::*member;
  Range<double> range;
};

// Beyond these a sampler computes with infinities or never ends; each range holds its "off".
constexpr RealField kRealFields[] = {
    {"temperature", &SamplerWish::temperature, {0, 100}},
    {"dynatemp_range", &SamplerWish::dynatemp_range, {0, 100}},
    {"dynatemp_exponent", &SamplerWish::dynatemp_exponent, {0, 100}},
    {"top_p", &SamplerWish::top_p, {0, 1}},
    {"min_p", &SamplerWish::min_p, {0, 1}},
    {"top_n_sigma", &SamplerWish::top_n_sigma, {-1, 100}},
    {"typical_p", &SamplerWish::typical_p, {0, 1}},
    {"xtc_probability", &SamplerWish::xtc_probability, {0, 1}},
    {"xtc_threshold", &SamplerWish::xtc_threshold, {0, 1}},
    {"repeat_penalty", &SamplerWish::repeat_penalty, {0.01, 100}},
    {"presence_penalty", &SamplerWish::presence_penalty, {-100, 100}},
    {"frequency_penalty", &SamplerWish::frequency_penalty, {-100, 100}},
    {"dry_multiplier", &SamplerWish::dry_multiplier, {0, 100}},
    {"dry_base", &SamplerWish::dry_base, {0, 100}},
    {"mirostat_tau", &SamplerWish::mirostat_tau, {0, 100}},
    {"mirostat_eta", &SamplerWish::mirostat_eta, {0, 100}},
    {"adaptive_target", &SamplerWish::adaptive_target, {-1, 1}},
    {"adaptive_decay", &SamplerWish::adaptive_decay, {0, 0.99}},
};

// Samplers that look back keep so many tokens each.
constexpr std::int64_t kLookBackMax = std::int64_t{1} << 20;

struct WholeField {
  const char* key;
  std::optional<std::int32_t> SamplerWish::*member;
  Range<std::int64_t> range;
};

constexpr WholeField kWholeFields[] = {
    {"top_k", &SamplerWish::top_k, {-1, kInt32Max}},
    {"repeat_last_n", &SamplerWish::repeat_last_n, {-1, kLookBackMax}},
    {"dry_allowed_length", &SamplerWish::dry_allowed_length, {0, kInt32Max}},
    {"dry_penalty_last_n", &SamplerWish::dry_penalty_last_n, {-1, kLookBackMax}},
    {"mirostat", &SamplerWish::mirostat, {0, 2}},
    {"min_keep", &SamplerWish::min_keep, {0, kInt32Max}},
};

struct SamplerName {
  std::string_view name;
  char letter;
  std::string_view other;  // names that clients use too, '|' around each
};

// llama.cpp's samplers and the letters of its short form, but the one for filling in.
constexpr SamplerName kSamplerNames[] = {
    {"penalties", 'e', "|"},
    {"dry", 'd', "|"},
    {"top_n_sigma", 's', "|topnsigma|"},
    {"top_k", 'k', "|topk|"},
    {"typ_p", 'y', "|typp|typ|typical_p|typical|"},
    {"top_p", 'p', "|topp|nucleus|"},
    {"min_p", 'm', "|minp|"},
    {"xtc", 'x', "|"},
    {"temperature", 't', "|temp|"},
    {"adaptive_p", 'a', "|adaptivep|"},
};

std::string_view sampler_by_name(std::string name) {
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  for (const SamplerName& known : kSamplerNames) {
    if (known.name == name) return known.name;
    if (known.other.find('|' + name + '|') != std::string_view::npos) return known.name;
  }
  return {};
}

std::string_view sampler_by_letter(char letter) {
  const auto* found = std::find_if(std::begin(kSamplerNames), std::end(kSamplerNames),
                                   [letter](const SamplerName& it) { return it.letter == letter; });
  return found == std::end(kSamplerNames) ? std::string_view() : found->name;
}

void take_sampler(const Fields& fields, std::string_view name, std::string_view given,
                  SamplerWish& wish) {
  if (name.empty()) {
    return fields.refuse("samplers", fmt::format("has {}, which is no sampler", in_quotes(given)));
  }
  wish.samplers.emplace_back(name);
}

// A list of names, or llama.cpp's short form: a letter each.
void read_samplers(const Fields& fields, SamplerWish& wish) {
  const Json* found = fields.find("samplers");
  if (found == nullptr) return;
  if (found->is_string()) {
    std::string letters;
    if (!fields.text("samplers", letters, kSamplersMax)) return;
    for (const char letter : letters) {
      take_sampler(fields, sampler_by_letter(letter), std::string(1, letter), wish);
    }
    return;
  }
  std::vector<std::string> names;
  if (!fields.texts("samplers", names, kSamplersMax)) return;
  for (const std::string& name : names) take_sampler(fields, sampler_by_name(name), name, wish);
}

// A number, or false: never this token.
std::optional<float> bias_of(const Json& json) {
  if (json.is_boolean() && !json.get<bool>()) return -std::numeric_limits<float>::infinity();
  constexpr double kBiasMax = 1e6;
  const double bias = json.is_number() ? json.get<double>() : 2 * kBiasMax;
  if (!(bias >= -kBiasMax && bias <= kBiasMax)) return std::nullopt;
  return static_cast<float>(bias);
}

// "123" is the token 123; other texts are their tokens.
std::variant<TokenId, std::string> biased_by_key(const std::string& key) {
  TokenId id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error == std::errc() && end == key.data() + key.size() && id >= 0) return id;
  return key;
}

// Filled in where it lies: g++ 12 takes the text within a temporary id for uninitialised.
void add_bias(std::variant<TokenId, std::string> what, float bias, SamplerWish& wish) {
  TokenBias& added = wish.logit_bias.emplace_back();
  added.what = std::move(what);
  added.bias = bias;
}

bool take_bias(const Json& what, const Json& amount, SamplerWish& wish) {
  const auto bias = bias_of(amount);
  if (!bias) return false;
  if (what.is_string()) {
    add_bias(what.get<std::string>(), *bias, wish);
    return true;
  }
  const auto id = whole_of(what);
  if (!id || *id < 0 || *id > kInt32Max) return false;
  add_bias(static_cast<TokenId>(*id), *bias, wish);
  return true;
}

bool take_biases(const Json& json, SamplerWish& wish) {
  if (!json.is_structured() || json.size() > kBiasesMax) return false;
  if (json.is_array()) {
    return std::all_of(json.begin(), json.end(), [&wish](const Json& pair) {
      return pair.is_array() && pair.size() == 2 && take_bias(pair[0], pair[1], wish);
    });
  }
  for (const auto& [key, amount] : json.items()) {
    const auto bias = bias_of(amount);
    if (!bias) return false;
    add_bias(biased_by_key(key), *bias, wish);
  }
  return true;
}

// {"123": -100, "text": false} or [[123, -100], ["text", false]].
void read_logit_bias(const Fields& fields, SamplerWish& wish) {
  const Json* found = fields.find("logit_bias");
  if (found == nullptr || take_biases(*found, wish)) return;
  fields.refuse("logit_bias",
                fmt::format("must be an object of at most {} numbers (or false) by token id or "
                            "text, or a list of such pairs",
                            kBiasesMax));
}

// Any 64-bit number; -1 is llama.cpp's word for "a new one each time".
void read_seed(const Fields& fields, SamplerWish& wish) {
  const Json* found = fields.find("seed");
  if (found == nullptr) return;
  if (found->is_number_unsigned()) {
    wish.seed = found->get<std::uint64_t>();
    return;
  }
  const auto seed = whole_of(*found);
  if (!seed) return fields.refuse("seed", "must be a whole number of at most 64 bits");
  if (*seed != -1) wish.seed = static_cast<std::uint64_t>(*seed);
}

}  // namespace

void read_sampler(const Fields& fields, SamplerWish& wish) {
  for (const RealField& field : kRealFields) {
    fields.real(field.key, wish.*field.member, field.range);
  }
  for (const WholeField& field : kWholeFields) {
    fields.whole(field.key, wish.*field.member, field.range);
  }
  if (wish.top_k) wish.top_k = std::max(*wish.top_k, 0);
  // Below 1 it would reward repetition; llama.cpp takes its default then.
  if (wish.dry_base && *wish.dry_base < 1) wish.dry_base.reset();
  fields.texts("dry_sequence_breakers", wish.dry_sequence_breakers, kBreakersMax);
  fields.flag("ignore_eos", wish.ignore_eos);
  read_seed(fields, wish);
  read_logit_bias(fields, wish);
  read_samplers(fields, wish);
}

}  // namespace salvage::api
