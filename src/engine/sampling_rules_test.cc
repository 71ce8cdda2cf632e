// Goal: impossible options are refused by name, and a list of the highest logits is asked for only
// where it is enough. Method: tables. That "enough" is enough is proven with libllama's own steps
// in llama/llama_sampler_chain_test.cc.
#include "engine/sampling_rules.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::engine {
namespace {

constexpr std::uint32_t kSize = 32000;

using Change = std::function<void(SamplingOptions&)>;

std::uint32_t enough(const Change& change, std::size_t banned = 0) {
  SamplingOptions options;
  change(options);
  return candidates_enough(options, kSize, banned);
}

TEST(SamplingRulesTest, values_out_of_range_are_refused_by_name) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<std::string, Change>> cases = {
      {"temperature", [](auto& o) { o.temperature = 999999; }},
      {"temperature", [&](auto& o) { o.temperature = nan; }},
      {"temperature", [](auto& o) { o.temperature = -1; }},
      {"top_k", [](auto& o) { o.top_k = -1; }},
      {"top_p", [](auto& o) { o.top_p = -1; }},
      {"top_p", [&](auto& o) { o.top_p = nan; }},
      {"min_p", [](auto& o) { o.min_p = 2; }},
      {"typical_p", [](auto& o) { o.typical_p = 1.5F; }},
      {"top_n_sigma", [&](auto& o) { o.top_n_sigma = infinity; }},
      {"xtc_probability", [](auto& o) { o.xtc_probability = -0.1F; }},
      {"xtc_threshold", [&](auto& o) { o.xtc_threshold = nan; }},
      {"dynatemp_range", [](auto& o) { o.dynatemp_range = -1; }},
      {"dynatemp_exponent", [&](auto& o) { o.dynatemp_exponent = infinity; }},
      {"repeat_penalty", [](auto& o) { o.repeat_penalty = 0; }},
      {"repeat_penalty", [&](auto& o) { o.repeat_penalty = nan; }},
      {"repeat_last_n", [](auto& o) { o.repeat_last_n = -1; }},
      {"presence_penalty", [](auto& o) { o.presence_penalty = 1e9F; }},
      {"frequency_penalty", [&](auto& o) { o.frequency_penalty = -infinity; }},
      {"dry_multiplier", [](auto& o) { o.dry_multiplier = -1; }},
      {"dry_base", [&](auto& o) { o.dry_base = nan; }},
      {"dry_allowed_length", [](auto& o) { o.dry_allowed_length = -1; }},
      {"dry_penalty_last_n", [](auto& o) { o.dry_penalty_last_n = 1 << 30; }},
      {"dry_sequence_breakers", [](auto& o) { o.dry_sequence_breakers = {""}; }},
      {"dry_sequence_breakers", [](auto& o) { o.dry_sequence_breakers.resize(99, "x"); }},
      {"mirostat", [](auto& o) { o.mirostat = 3; }},
      {"mirostat_tau", [&](auto& o) { o.mirostat_tau = nan; }},
      {"mirostat_eta", [](auto& o) { o.mirostat_eta = -1; }},
      {"adaptive_target", [](auto& o) { o.adaptive_target = 2; }},
      {"adaptive_decay", [](auto& o) { o.adaptive_decay = 1; }},
      {"min_keep", [](auto& o) { o.min_keep = -1; }},
      {"samplers", [](auto& o) { o.order.resize(99); }},
      {"logit_bias",
       [](auto& o) {
         o.logit_bias = {{-1, 1}};
       }},
      {"logit_bias",
       [](auto& o) {
         o.logit_bias = {{static_cast<TokenId>(kSize), 1}};
       }},
      {"logit_bias",
       [&](auto& o) {
         o.logit_bias = {{1, nan}};
       }},
      {"logit_bias",
       [&](auto& o) {
         o.logit_bias = {{1, infinity}};
       }},
      {"logit_bias", [](auto& o) { o.logit_bias.resize(100000); }},
      {"top_logprobs", [](auto& o) { o.top_logprobs = 5000; }},
      {"thinking_budget", [](auto& o) { o.thinking.budget = -2; }}};
  for (const auto& [name, change] : cases) {
    SamplingOptions options;
    change(options);
    const auto checked = check_sampling(options, kSize);
    ASSERT_FALSE(checked) << name;
    EXPECT_THAT(checked.error().message(), testing::StartsWith(name + ": "));
  }
}

TEST(SamplingRulesTest, defaults_and_the_ends_of_ranges_are_possible) {
  EXPECT_TRUE(check_sampling({}, kSize));
  EXPECT_TRUE(check_sampling({.top_p = 0, .typical_p = 0}, kSize));
  EXPECT_TRUE(check_sampling({.logit_bias = {{1, kBanned}, {1, -100}, {1, 100}}}, kSize));
}

TEST(SamplingRulesTest, enough_is_what_the_first_bound_keeps_and_what_may_sink) {
  EXPECT_EQ(enough([](auto&) {}), 40U);
  EXPECT_EQ(enough([](auto& o) { o.temperature = 0; }), 1U);
  EXPECT_EQ(enough([](auto& o) { o.repeat_penalty = 1.1F; }), 104U);
  EXPECT_EQ(enough([](auto& o) { o.presence_penalty = 1; }), 104U);
  EXPECT_EQ(enough([](auto& o) { o.dry_multiplier = 1; }), 104U);
  EXPECT_EQ(enough([](auto& o) { o.logit_bias = {{5, -1}, {6, kBanned}}; }), 42U);
  EXPECT_EQ(enough([](auto&) {}, 7), 47U);
  EXPECT_EQ(enough([](auto& o) {
              o.temperature = 0;
              o.dry_multiplier = 1;
            }),
            65U);
  // Behind the bound steps may do what they like.
  EXPECT_EQ(enough([](auto& o) {
              o.typical_p = 0.5F;
              o.xtc_probability = 1;
            }),
            40U);
  EXPECT_EQ(enough([](auto& o) { o.dynatemp_range = 1; }), 40U);
}

TEST(SamplingRulesTest, all_logits_are_needed_where_a_step_looks_at_all_or_lifts_any) {
  const auto front = [](SamplerKind kind) {
    return [kind](SamplingOptions& o) { o.order.insert(o.order.begin(), kind); };
  };
  const std::vector<std::pair<const char*, Change>> cases = {
      {"no bound", [](auto& o) { o.top_k = 0; }},
      {"bound not among the steps", [](auto& o) { o.order = {SamplerKind::kTemperature}; }},
      {"a penalty that lifts", [](auto& o) { o.repeat_penalty = 0.9F; }},
      {"a presence that is a reward", [](auto& o) { o.presence_penalty = -1; }},
      {"a bias upwards",
       [](auto& o) {
         o.logit_bias = {{5, 1}};
       }},
      {"mirostat", [](auto& o) { o.mirostat = 2; }},
      {"sigma", [](auto& o) { o.top_n_sigma = 1; }},
      {"top-p before top-k", front(SamplerKind::kTopP)},
      {"xtc before top-k",
       [&](auto& o) {
         o.xtc_probability = 1;
         front(SamplerKind::kXtc)(o);
       }},
      {"typical before top-k",
       [&](auto& o) {
         o.typical_p = 0.5F;
         front(SamplerKind::kTypicalP)(o);
       }},
      {"moving temperature before top-k",
       [&](auto& o) {
         o.dynatemp_range = 1;
         front(SamplerKind::kTemperature)(o);
       }},
      {"a list as heavy as the row", [](auto& o) { o.top_k = 20000; }},
      {"many biases", [](auto& o) {
         o.logit_bias.resize(200, {1, -1});
       }}};
  for (const auto& [what, change] : cases) EXPECT_EQ(enough(change), 0U) << what;
}

TEST(SamplingRulesTest, a_step_that_may_remove_the_likeliest_token_is_not_greedy) {
  EXPECT_TRUE(greedy({.temperature = 0}));
  EXPECT_FALSE(greedy({.temperature = 0.5F}));
  EXPECT_FALSE(greedy({.temperature = 0, .xtc_probability = 1}));
  EXPECT_FALSE(greedy({.temperature = 0, .typical_p = 0.5F}));
  EXPECT_FALSE(greedy({.temperature = 0, .dynatemp_range = 1}));
  EXPECT_FALSE(greedy({.temperature = 0, .mirostat = 1}));
  EXPECT_FALSE(greedy({.temperature = 0, .order = {SamplerKind::kTopK}}));
}

TEST(SamplingRulesTest, steps_are_known_by_name_and_letter) {
  EXPECT_EQ(sampler_of_name("top_k"), SamplerKind::kTopK);
  EXPECT_EQ(sampler_of_name("nucleus"), SamplerKind::kTopP);
  EXPECT_EQ(sampler_of_name("temperature"), SamplerKind::kTemperature);
  EXPECT_FALSE(sampler_of_name(""));
  EXPECT_FALSE(sampler_of_name("infill"));
  EXPECT_EQ(sampler_of_letter('k'), SamplerKind::kTopK);
  EXPECT_FALSE(sampler_of_letter('?'));
}

}  // namespace
}  // namespace salvage::engine
