// Goal: every option that a request may set changes what is drawn. Method: the same logits and seed
// with and without the option, over steps enough for it to show.
#include "engine/llama/sampler_steps.h"

#include <functional>
#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/llama/llama_sampler_chain.h"
#include "engine/llama/test_vocabulary.h"

namespace salvage::engine {
namespace {

constexpr std::size_t kRowSize = 300;
constexpr int kSteps = 120;

// A few tokens stand out, so that repetitions happen and there is a tail to cut.
std::vector<TokenId> draws(const SamplingOptions& options) {
  const auto vocabulary = test_vocabulary("llama-spm");
  auto made = make_llama_sampler(options, vocabulary);
  EXPECT_TRUE(made) << made.error().message();
  if (!made) return {};
  std::mt19937 random(21);
  for (const TokenId token : {50, 51, 52, 50, 51, 52, 50, 51}) (*made)->accept_prompt(token);
  std::vector<TokenId> tokens;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> logits(kRowSize);
    for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 250;
    for (std::size_t id = 40; id < 60; ++id) logits[id] += 3;
    logits[2] += 4;  // the end
    tokens.push_back((*made)->choose(logits));
    (*made)->accept(tokens.back());
  }
  return tokens;
}

using Change = std::function<void(SamplingOptions&)>;

struct Option {
  const char* name;
  Change base;  // what it needs to matter
  Change change;
};

void nothing(SamplingOptions&) {}

void expect_changes(const std::vector<Option>& options) {
  for (const Option& option : options) {
    SamplingOptions without;
    option.base(without);
    SamplingOptions with = without;
    option.change(with);
    EXPECT_NE(draws(without), draws(with)) << option.name;
    EXPECT_EQ(draws(with), draws(with)) << option.name << " is repeatable";
  }
}

TEST(SamplerStepsTest, every_option_changes_something) {
  using O = SamplingOptions;
  expect_changes({{"seed", nothing, [](O& o) { o.seed = 1; }},
                  {"temperature", nothing, [](O& o) { o.temperature = 2; }},
                  {"greedy", nothing, [](O& o) { o.temperature = 0; }},
                  {"top_k", nothing, [](O& o) { o.top_k = 2; }},
                  {"top_p", nothing, [](O& o) { o.top_p = 0.3F; }},
                  {"min_p", nothing, [](O& o) { o.min_p = 0.9F; }},
                  {"typical_p", nothing, [](O& o) { o.typical_p = 0.2F; }},
                  {"top_n_sigma", nothing, [](O& o) { o.top_n_sigma = 0.5F; }},
                  {"repeat_penalty", nothing, [](O& o) { o.repeat_penalty = 1.5F; }},
                  {"presence_penalty", nothing, [](O& o) { o.presence_penalty = 2; }},
                  {"frequency_penalty", nothing, [](O& o) { o.frequency_penalty = 1; }},
                  {"dynatemp_range", nothing, [](O& o) { o.dynatemp_range = 0.7F; }},
                  {"dry_multiplier", nothing, [](O& o) { o.dry_multiplier = 3; }},
                  {"mirostat 1", nothing, [](O& o) { o.mirostat = 1; }},
                  {"mirostat 2", nothing, [](O& o) { o.mirostat = 2; }},
                  {"logit_bias", nothing,
                   [](O& o) {
                     o.logit_bias.push_back({7, 20});
                   }},
                  {"ignore_eos", nothing, [](O& o) { o.ignore_eos = true; }},
                  {"grammar", nothing, [](O& o) { o.grammar.text = "root ::= [a-z]+"; }}});
}

TEST(SamplerStepsTest, every_option_that_shapes_another_changes_something) {
  using O = SamplingOptions;
  const auto penalty = [](O& o) { o.repeat_penalty = 1.5F; };
  const auto xtc = [](O& o) {
    o.xtc_probability = 0.5F;
    o.xtc_threshold = 0.02F;
  };
  const auto dynamic = [](O& o) { o.dynatemp_range = 0.7F; };
  const auto dry = [](O& o) {
    o.dry_multiplier = 0.3F;
    o.dry_allowed_length = 1;
  };
  const auto mirostat = [](O& o) { o.mirostat = 2; };
  const auto adaptive = [](O& o) {
    o.adaptive_target = 0.3F;
    o.order.push_back(SamplerKind::kAdaptiveP);
  };
  const auto hot = [](O& o) {
    o.temperature = 3;
    o.min_p = 0.5F;
  };
  expect_changes({{"repeat_last_n", penalty, [](O& o) { o.repeat_last_n = 1; }},
                  {"xtc_probability", nothing, xtc},
                  {"xtc_threshold", xtc, [](O& o) { o.xtc_threshold = 0.2F; }},
                  {"min_keep", [](O& o) { o.top_p = 0.1F; }, [](O& o) { o.min_keep = 10; }},
                  {"dynatemp_exponent", dynamic, [](O& o) { o.dynatemp_exponent = 5; }},
                  {"dry_base", dry, [](O& o) { o.dry_base = 20; }},
                  {"dry_allowed_length", dry, [](O& o) { o.dry_allowed_length = 8; }},
                  {"dry_penalty_last_n", dry, [](O& o) { o.dry_penalty_last_n = 2; }},
                  {"mirostat_tau", mirostat, [](O& o) { o.mirostat_tau = 1; }},
                  {"mirostat_eta", mirostat, [](O& o) { o.mirostat_eta = 0.9F; }},
                  {"adaptive_target", nothing, adaptive},
                  {"adaptive_decay", adaptive, [](O& o) { o.adaptive_decay = 0; }},
                  {"order", hot, [](O& o) { std::swap(o.order[6], o.order[8]); }}});
}

TEST(SamplerStepsTest, what_breaks_a_repetition_decides_about_dry) {
  // Token 13 is a line's end, which breaks repetitions unless the request says otherwise.
  const auto vocabulary = test_vocabulary("llama-spm");
  ASSERT_EQ(vocabulary->piece(13, false), "\n");
  const auto after = [&](std::vector<std::string> breakers) {
    auto made = make_llama_sampler({.temperature = 0,
                                    .dry_multiplier = 5,
                                    .dry_allowed_length = 1,
                                    .dry_sequence_breakers = std::move(breakers)},
                                   vocabulary);
    EXPECT_TRUE(made);
    for (const TokenId token : {50, 13, 60, 50, 13}) (*made)->accept_prompt(token);
    std::vector<float> logits(kRowSize, 0);
    logits[60] = 3;
    logits[61] = 2;
    return (*made)->choose(logits);
  };
  EXPECT_EQ(after({"\n"}), 60);
  EXPECT_EQ(after({"*"}), 61);
}

TEST(SamplerStepsTest, banned_tokens_are_never_drawn) {
  SamplingOptions options{.temperature = 5, .top_k = 0, .top_p = 1, .min_p = 0};
  for (TokenId token = 0; token < static_cast<TokenId>(kRowSize); ++token) {
    if (token != 77) options.logit_bias.push_back({token, kBanned});
  }
  EXPECT_THAT(draws(options), testing::Each(77));
}

}  // namespace
}  // namespace salvage::engine
