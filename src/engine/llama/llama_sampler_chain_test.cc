// Goal: a choice among a top list equals the choice among all logits, greedy equals libllama's own,
// and no option value can hang or crash. Method: random logits with many ties, thousands of draws.
#include "engine/llama/llama_sampler_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/llama/handles.h"
#include "engine/llama/test_vocabulary.h"

namespace salvage::engine {
namespace {

constexpr std::uint32_t kVocabularySize = 500;  // Rows need not have all of a vocabulary.

std::unique_ptr<Sampler> sampler(const SamplingOptions& options) {
  auto made = make_llama_sampler(options, test_vocabulary("llama-spm"));
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

// Quarter steps, so that equal logits are common, negative ones included.
std::vector<float> random_logits(std::mt19937& random) {
  std::vector<float> logits(kVocabularySize);
  for (float& logit : logits) logit = static_cast<float>(static_cast<int>(random() % 64) - 32) / 4;
  return logits;
}

struct TopList {
  std::vector<TokenId> ids;
  std::vector<float> logits;
};

// The `count` highest, lowest ids first among equals, handed over in shuffled order.
TopList top_list(const std::vector<float>& logits, std::uint32_t count, std::mt19937& random) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  ids.resize(std::min<std::size_t>(ids.size(), count));
  std::shuffle(ids.begin(), ids.end(), random);
  TopList list{ids, {}};
  for (const TokenId id : ids) list.logits.push_back(logits[static_cast<std::size_t>(id)]);
  return list;
}

TokenId libllamas_greedy_choice(const std::vector<float>& logits) {
  std::vector<llama_token_data> data;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    data.push_back({.id = static_cast<llama_token>(id), .logit = logits[id], .p = 0});
  }
  llama_token_data_array array{
      .data = data.data(), .size = data.size(), .selected = -1, .sorted = false};
  const SamplerHandle greedy(llama_sampler_init_greedy());
  llama_sampler_apply(greedy.get(), &array);
  return array.data[array.selected].id;
}

TEST(LlamaSamplerTest, greedy_wants_one_candidate_and_chooses_as_libllama_does) {
  std::mt19937 random(1);
  const auto greedy = sampler({.temperature = 0, .repeat_penalty = 1});
  EXPECT_EQ(greedy->candidates_wanted(), 1U);
  for (int i = 0; i < 200; ++i) {
    const auto logits = random_logits(random);
    const TopList list = top_list(logits, 1, random);
    EXPECT_EQ(greedy->choose(logits), libllamas_greedy_choice(logits));
    EXPECT_EQ(greedy->choose(TopLogits{list.ids, list.logits, 0}), libllamas_greedy_choice(logits));
  }
}

// The property that lets a stage send a short list instead of all logits.
void expect_same_choices(const SamplingOptions& options) {
  std::mt19937 random(2);
  const auto from_all = sampler(options);
  const auto from_list = sampler(options);
  const std::uint32_t wanted = from_all->candidates_wanted();
  ASSERT_GT(wanted, 0U);
  for (int i = 0; i < 500; ++i) {
    const auto logits = random_logits(random);
    const TopList list = top_list(logits, wanted, random);
    const TokenId token = from_all->choose(logits);
    ASSERT_EQ(token, from_list->choose(TopLogits{list.ids, list.logits, 0})) << i;
    from_all->accept(token);
    from_list->accept(token);
  }
}

TEST(LlamaSamplerTest, a_top_list_gives_the_same_draws_as_all_logits) {
  expect_same_choices({.seed = 7, .temperature = 0.8F, .top_k = 40});
  expect_same_choices({.seed = 8, .temperature = 1.5F, .top_k = 3, .top_p = 1, .min_p = 0});
}

TEST(LlamaSamplerTest, a_top_list_is_long_enough_for_every_step_that_allows_one) {
  expect_same_choices({.seed = 1, .top_k = 8, .presence_penalty = 1.5F, .frequency_penalty = 0.5F});
  expect_same_choices({.seed = 2, .top_k = 8, .dry_multiplier = 2, .dry_allowed_length = 1});
  expect_same_choices({.seed = 3, .top_k = 8, .typical_p = 0.6F});
  expect_same_choices({.seed = 4, .top_k = 8, .xtc_probability = 0.5F, .xtc_threshold = 0.05F});
  expect_same_choices({.seed = 5, .top_k = 8, .dynatemp_range = 0.7F});
  expect_same_choices({.seed = 6, .top_k = 8, .logit_bias = {{3, kBanned}, {4, -3}, {4, -1}}});
  expect_same_choices({.seed = 7, .top_k = 8, .ignore_eos = true});
  expect_same_choices({.seed = 8,
                       .top_k = 8,
                       .adaptive_target = 0.4F,
                       .order = {SamplerKind::kMinP, SamplerKind::kTemperature, SamplerKind::kTopK,
                                 SamplerKind::kAdaptiveP}});
  expect_same_choices({.temperature = 0, .dry_multiplier = 2, .logit_bias = {{3, kBanned}}});
}

TEST(LlamaSamplerTest, a_top_list_is_long_enough_for_penalties) {
  expect_same_choices({.seed = 9, .temperature = 0.8F, .top_k = 5, .repeat_penalty = 1.8F});
  expect_same_choices({.temperature = 0, .repeat_penalty = 3.0F, .repeat_last_n = 20});
}

TEST(LlamaSamplerTest, unbounded_samplers_ask_for_all_logits) {
  EXPECT_EQ(sampler({.top_k = 0})->candidates_wanted(), 0U);
  EXPECT_EQ(sampler({.top_k = 40, .repeat_penalty = 0.9F})->candidates_wanted(), 0U);
  const auto all = sampler({.seed = 3, .top_k = 0, .top_p = 1, .min_p = 0});
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    const TokenId token = all->choose(random_logits(random));
    EXPECT_GE(token, 0);
    EXPECT_LT(token, static_cast<TokenId>(kVocabularySize));
  }
}

TEST(LlamaSamplerTest, one_seed_gives_one_sequence_and_another_seed_another) {
  const auto draw = [](std::uint64_t seed) {
    std::mt19937 random(4);
    const auto made = sampler({.seed = seed});
    std::vector<TokenId> tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back(made->choose(random_logits(random)));
    return tokens;
  };
  EXPECT_EQ(draw(5), draw(5));
  EXPECT_NE(draw(5), draw(6));
  EXPECT_NE(draw(5), draw(std::uint64_t{5} << 40));
  EXPECT_EQ(draw(LLAMA_DEFAULT_SEED), draw(LLAMA_DEFAULT_SEED));  // the clock's seed in libllama
}

TEST(LlamaSamplerTest, a_penalty_moves_a_repeated_token_down) {
  const auto penalised = sampler({.temperature = 0, .repeat_penalty = 2.0F});
  std::vector<float> logits(kVocabularySize, -5.0F);
  logits[10] = 3.0F;
  logits[20] = 2.0F;
  EXPECT_EQ(penalised->choose(logits), 10);
  penalised->accept(10);
  EXPECT_EQ(penalised->choose(logits), 20);
}

TEST(LlamaSamplerTest, values_out_of_range_are_refused_by_name) {
  const auto made = make_llama_sampler({.top_p = -1}, test_vocabulary("llama-spm"));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), testing::StartsWith("top_p: "));
}

TEST(LlamaSamplerTest, tokens_that_the_vocabulary_does_not_have_are_never_chosen) {
  const auto size = static_cast<TokenId>(test_vocabulary("llama-spm")->size());
  const std::vector<TokenId> ids = {size, 7, -3};
  const std::vector<float> logits = {9, 1, 9};
  EXPECT_EQ(sampler({.temperature = 0})->choose(TopLogits{ids, logits, 0}), 7);
  std::vector<float> row(static_cast<std::size_t>(size) + 10, 0);
  row.back() = 9;
  row[3] = 1;
  EXPECT_EQ(sampler({.temperature = 0})->choose(row), 3);
}

TEST(LlamaSamplerTest, logits_that_are_no_numbers_do_not_crash) {
  std::vector<float> logits(kVocabularySize, std::numeric_limits<float>::quiet_NaN());
  logits[7] = 1;
  for (const float temperature : {0.0F, 0.01F, 100.0F}) {
    EXPECT_EQ(sampler({.temperature = temperature})->choose(logits), 7) << temperature;
  }
  logits[7] = std::numeric_limits<float>::infinity();
  sampler({})->choose(logits);
  EXPECT_LT(sampler({})->choose(std::vector<float>{}), 0);
}

// --- reports -------------------------------------------------------------------------------------

TEST(LogprobsTest, a_report_is_the_models_own_distribution_from_all_logits_and_from_a_list) {
  std::mt19937 random(6);
  const SamplingOptions options{.seed = 4,
                                .temperature = 2,
                                .top_k = 20,
                                .repeat_penalty = 1.5F,
                                .logprobs = true,
                                .top_logprobs = 30};
  const auto from_all = sampler(options);
  const auto from_list = sampler(options);
  const std::uint32_t wanted = from_all->candidates_wanted();
  EXPECT_EQ(wanted, 84U);
  for (int i = 0; i < 50; ++i) {
    const auto logits = random_logits(random);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const auto log_sum = static_cast<float>(std::log(sum));
    const TopList list = top_list(logits, wanted, random);
    const TokenId token = from_all->choose(logits);
    ASSERT_EQ(token, from_list->choose(TopLogits{list.ids, list.logits, log_sum}));
    from_all->accept(token);
    from_list->accept(token);
    const auto& all = from_all->logprobs();
    const auto& some = from_list->logprobs();
    ASSERT_TRUE(all && some);
    EXPECT_EQ(all->chosen.token, token);
    EXPECT_NEAR(all->chosen.logprob, logits[static_cast<std::size_t>(token)] - log_sum, 1e-4);
    EXPECT_NEAR(some->chosen.logprob, all->chosen.logprob, 1e-4);
    ASSERT_EQ(all->top.size(), 30U);
    ASSERT_EQ(some->top.size(), 30U);
    for (std::size_t k = 0; k < 30; ++k) {
      EXPECT_EQ(all->top[k].token, some->top[k].token);
      EXPECT_NEAR(all->top[k].logprob, some->top[k].logprob, 1e-4);
      if (k > 0) {
        EXPECT_LE(all->top[k].logprob, all->top[k - 1].logprob);
      }
    }
  }
}

TEST(LogprobsTest, a_report_changes_no_choice_and_is_made_only_if_asked_for) {
  std::mt19937 random(8);
  const auto silent = sampler({.seed = 4, .top_k = 5});
  const auto talking = sampler({.seed = 4, .top_k = 5, .logprobs = true, .top_logprobs = 20});
  EXPECT_EQ(silent->candidates_wanted(), 5U);
  EXPECT_EQ(talking->candidates_wanted(), 20U);
  for (int i = 0; i < 100; ++i) {
    const auto logits = random_logits(random);
    ASSERT_EQ(silent->choose(logits), talking->choose(logits));
  }
  EXPECT_FALSE(silent->logprobs());
}

TEST(LogprobsTest, probabilities_after_sampling_are_those_of_what_was_left) {
  std::vector<float> logits(kVocabularySize, -50);
  logits[1] = 2;
  logits[2] = 1;
  logits[3] = 0;
  const auto made = sampler({.temperature = 1,
                             .top_k = 2,
                             .top_p = 1,
                             .min_p = 0,
                             .logprobs = true,
                             .top_logprobs = 5,
                             .logprobs_after_sampling = true});
  made->choose(logits);
  ASSERT_EQ(made->logprobs()->top.size(), 2U);
  EXPECT_EQ(made->logprobs()->top[0].token, 1);
  EXPECT_NEAR(std::exp(made->logprobs()->top[0].logprob), 0.7311, 1e-3);
  EXPECT_NEAR(std::exp(made->logprobs()->top[1].logprob), 0.2689, 1e-3);
  const auto greedy = sampler(
      {.temperature = 0, .logprobs = true, .top_logprobs = 5, .logprobs_after_sampling = true});
  greedy->choose(logits);
  ASSERT_EQ(greedy->logprobs()->top.size(), 1U);
  EXPECT_EQ(greedy->logprobs()->chosen.logprob, 0);
}

}  // namespace
}  // namespace salvage::engine
