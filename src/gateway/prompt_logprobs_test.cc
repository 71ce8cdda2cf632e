// Goal: logprobs of a given token are those of the softmax, whatever the logits hold. Method: small
// rows with known sums.

#include "gateway/prompt_logprobs.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace salvage::gateway {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(PromptLogprobs, are_those_of_the_softmax) {
  const std::vector<float> logits{std::log(1.0F), std::log(2.0F), std::log(5.0F), std::log(2.0F)};
  const auto found = logprobs_in(logits, 1, 3);
  EXPECT_EQ(found.chosen.token, 1);
  EXPECT_NEAR(found.chosen.logprob, std::log(0.2), 1e-6);
  ASSERT_EQ(found.top.size(), 3U);
  EXPECT_EQ(found.top[0].token, 2);
  EXPECT_NEAR(found.top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(found.top[1].token, 1) << "of equal ones the lower id";
  EXPECT_EQ(found.top[2].token, 3);
}

TEST(PromptLogprobs, large_logits_do_not_overflow) {
  const std::vector<float> logits{1e30F, 1e30F};
  EXPECT_NEAR(logprobs_in(logits, 0, 1).chosen.logprob, std::log(0.5), 1e-6);
}

TEST(PromptLogprobs, what_is_no_number_is_never_likely) {
  const std::vector<float> logits{std::nanf(""), 0, -kInfinity};
  const auto found = logprobs_in(logits, 0, 3);
  EXPECT_EQ(found.chosen.logprob, -kInfinity);
  EXPECT_EQ(found.top[0].token, 1);
  EXPECT_EQ(found.top[0].logprob, 0);
  EXPECT_EQ(logprobs_in(std::vector<float>{std::nanf("")}, 0, 1).chosen.logprob, -kInfinity);
}

TEST(PromptLogprobs, a_token_that_is_none_is_impossible) {
  const std::vector<float> logits{0, 1};
  EXPECT_EQ(logprobs_in(logits, 2, 0).chosen.logprob, -kInfinity);
  EXPECT_EQ(logprobs_in(logits, -1, 0).chosen.logprob, -kInfinity);
  EXPECT_TRUE(logprobs_in(logits, 0, 0).top.empty());
  EXPECT_EQ(logprobs_in(logits, 0, 9).top.size(), 2U);
}

}  // namespace
}  // namespace salvage::gateway
