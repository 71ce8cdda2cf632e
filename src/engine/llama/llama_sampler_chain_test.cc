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

namespace salvage::engine {
namespace {

constexpr std::uint32_t kVocabularySize = 500;

std::unique_ptr<Sampler> sampler(const SamplingOptions& options) {
  auto made = make_llama_sampler(options, kVocabularySize);
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
    EXPECT_EQ(greedy->choose(list.ids, list.logits), libllamas_greedy_choice(logits));
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
    ASSERT_EQ(token, from_list->choose(list.ids, list.logits)) << i;
    from_all->accept(token);
    from_list->accept(token);
  }
}

TEST(LlamaSamplerTest, a_top_list_gives_the_same_draws_as_all_logits) {
  expect_same_choices({.seed = 7, .temperature = 0.8F, .top_k = 40});
  expect_same_choices({.seed = 8, .temperature = 1.5F, .top_k = 3, .top_p = 1, .min_p = 0});
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
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::string, SamplingOptions>> cases = {
      {"temperature", {.temperature = 999999}},
      {"temperature", {.temperature = nan}},
      {"temperature", {.temperature = -1}},
      {"top_k", {.top_k = -1}},
      {"top_p", {.top_p = -1}},
      {"top_p", {.top_p = nan}},
      {"min_p", {.min_p = 2}},
      {"repeat_penalty", {.repeat_penalty = 0}},
      {"repeat_penalty", {.repeat_penalty = nan}},
      {"repeat_last_n", {.repeat_last_n = -1}}};
  for (const auto& [name, options] : cases) {
    const auto made = make_llama_sampler(options, kVocabularySize);
    ASSERT_FALSE(made) << name;
    EXPECT_THAT(made.error().message(), testing::HasSubstr(name));
  }
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

}  // namespace
}  // namespace salvage::engine
