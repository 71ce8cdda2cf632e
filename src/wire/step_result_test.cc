// Goal: results come back as they went, and the reductions choose what a sampler would find in all
// logits. Method: random results there and back; top-k against a full sort, log-sum-exp against
// double arithmetic.

#include "wire/step_result.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "wire/data_generate.h"

namespace salvage::wire {
namespace {

using testing::ElementsAre;

FrameHeader header_of(const StepResult& result) {
  FrameHeader header;
  header.type = FrameType::kStepResult;
  header.epoch = result.epoch;
  header.step = result.step;
  header.data_bytes = result.data_bytes();
  return header;
}

TEST(StepResult, any_valid_one_comes_back_as_it_went) {
  EXPECT_TRUE(rc::check("decode(encode(x)) == x", [](std::uint64_t seed) {
    const StepResult result = generate_step_result(seed);
    std::vector<std::byte> body;
    RC_ASSERT(encode(result, body).has_value());
    StepResult back = generate_step_result(seed + 1);
    RC_ASSERT(decode(header_of(result), body, back).has_value());
    RC_ASSERT(back == result);
  }));
}

TEST(StepResult, every_truncation_is_corrupt) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const StepResult result = generate_step_result(seed);
    std::vector<std::byte> body;
    ASSERT_TRUE(encode(result, body));
    StepResult back;
    for (std::size_t length = 0; length < body.size(); ++length) {
      ASSERT_FALSE(decode(header_of(result), std::span(body).first(length), back));
    }
  }
}

TEST(StepResult, a_token_outside_the_vocabulary_is_refused) {
  StepResult result;
  result.form = LogitsForm::kTopK;
  result.row_count = 1;
  result.vocabulary_size = 10;
  result.top_k = 1;
  result.ids = {9};
  result.logits = {1.0F};
  result.log_sum_exp = {2.0F};
  std::vector<std::byte> body;
  ASSERT_TRUE(encode(result, body));
  StepResult back;
  ASSERT_TRUE(decode(header_of(result), body, back));
  body[16] = std::byte{10};
  EXPECT_FALSE(decode(header_of(result), body, back));
  result.ids = {-1};
  EXPECT_FALSE(encode(result, body));
}

TEST(StepResult, counts_over_their_limits_are_refused_before_room_is_made) {
  StepResult result;
  result.row_count = kLogitRowsMax + 1;
  std::vector<std::byte> body;
  EXPECT_FALSE(encode(result, body));
  result.row_count = 1;
  result.vocabulary_size = kVocabularyMax + 1;
  EXPECT_FALSE(encode(result, body));
  result.vocabulary_size = 100;
  ASSERT_TRUE(encode(result, body));
  body[12] = std::byte{3};
  StepResult back;
  const auto decoded = decode(header_of(result), body, back);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code(), ErrorCode::kUnsupported);
}

StepResult reduced(const std::vector<float>& logits, LogitsForm form, std::uint32_t top_k) {
  StepResult result;
  result.form = form;
  result.row_count = 1;
  result.vocabulary_size = static_cast<std::uint32_t>(logits.size());
  result.top_k = top_k;
  reduce_logits(logits, result);
  return result;
}

TEST(ReduceLogits, top_k_is_the_head_of_a_full_sort) {
  Random random(9);
  for (const std::uint32_t k : {1U, 2U, 40U, 1024U, 5000U}) {
    std::vector<float> logits(5000);
    // Coarse values, so that there are many ties.
    for (float& logit : logits) logit = static_cast<float>(random.below(200)) / 8 - 12;
    std::vector<TokenId> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
      return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    order.resize(k);
    const StepResult result = reduced(logits, LogitsForm::kTopK, k);
    ASSERT_EQ(result.ids, order) << k;
    for (std::size_t i = 0; i < k; ++i) {
      ASSERT_EQ(result.logits[i], logits[static_cast<std::size_t>(order[i])]);
    }
  }
}

TEST(ReduceLogits, falling_logits_do_not_hide_the_first) {
  std::vector<float> logits(10000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = -static_cast<float>(i);
  EXPECT_THAT(reduced(logits, LogitsForm::kTopK, 3).ids, ElementsAre(0, 1, 2));
  std::reverse(logits.begin(), logits.end());
  EXPECT_THAT(reduced(logits, LogitsForm::kTopK, 3).ids, ElementsAre(9999, 9998, 9997));
}

TEST(ReduceLogits, nan_comes_last_and_both_zeros_are_equal) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {nan, -0.0F, 0.0F, -infinity, -nan, 1.0F};
  EXPECT_THAT(reduced(logits, LogitsForm::kTopK, 6).ids, ElementsAre(5, 1, 2, 3, 0, 4));
  EXPECT_EQ(reduced({nan, 2.0F}, LogitsForm::kTopK, 1).log_sum_exp[0], 2.0F);
  EXPECT_EQ(reduced({nan, nan}, LogitsForm::kTopK, 1).log_sum_exp[0], -infinity);
  EXPECT_EQ(reduced({infinity, 1.0F}, LogitsForm::kTopK, 1).log_sum_exp[0], infinity);
}

TEST(ReduceLogits, a_k_beyond_the_vocabulary_means_all) {
  const StepResult result = reduced({1.0F, 3.0F, 2.0F}, LogitsForm::kTopK, 1024);
  EXPECT_EQ(result.top_k, 3U);
  EXPECT_THAT(result.ids, ElementsAre(1, 2, 0));
}

TEST(ReduceLogits, log_sum_exp_agrees_with_double_arithmetic) {
  Random random(11);
  for (const double spread : {0.01, 1.0, 20.0, 300.0}) {
    std::vector<float> logits(32001);
    double sum = 0;
    for (float& logit : logits) logit = static_cast<float>((random.unit() - 0.5) * spread);
    const float highest = *std::max_element(logits.begin(), logits.end());
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
    const double expected = highest + std::log(sum);
    EXPECT_NEAR(reduced(logits, LogitsForm::kTopK, 1).log_sum_exp[0], expected,
                2e-6 * std::max(1.0, std::abs(expected)))
        << spread;
  }
}

TEST(ReduceLogits, a_hash_changes_with_any_bit) {
  std::vector<float> logits = {1.0F, 2.0F, 0.0F};
  const auto first = reduced(logits, LogitsForm::kHash, 0).hashes[0];
  EXPECT_EQ(first, hash_logits(logits));
  logits[2] = -0.0F;
  EXPECT_NE(reduced(logits, LogitsForm::kHash, 0).hashes[0], first);
}

}  // namespace
}  // namespace salvage::wire
