// Goal: what one choice tells of itself: times from where they begin, the end only once what was
// held back is out. Method: the fake vocabulary of sim/, a clock set by hand.

#include "gateway/answer_choice.h"

#include <gtest/gtest.h>

#include "sim/fake_text.h"

namespace salvage::gateway {
namespace {

class Choice : public ::testing::Test {
 protected:
  Choice() {
    wish_.timings_per_token = true;
    prompt_.tokens = {1, 2, 3, 4};
    prompt_.stop = {"xyz"};
  }
  AnswerChoice choice() { return {0, prompt_, context_}; }

  ManualClock clock_;
  const engine::TextTools text_ = sim::make_fake_text({});
  api::GenerateRequest wish_;
  PreparedPrompt prompt_;
  const ChoiceContext context_{wish_, *text_.vocabulary, clock_, 100};
};

TEST_F(Choice, waiting_is_no_part_of_reading) {
  AnswerChoice choice = this->choice();
  clock_.advance(std::chrono::seconds(5));
  const auto waits = choice.take(Waits{1});
  EXPECT_EQ(std::get<api::Queued>(*waits).time_ms, 5000);
  (void)choice.take(Read{1, 4, 1});
  clock_.advance(std::chrono::seconds(3));
  const auto read = choice.take(Read{4, 4, 1});
  EXPECT_EQ(std::get<api::PromptProgress>(*read).time_ms, 3000);
  const auto delta = choice.take(TokenId{7});
  const auto& timings = std::get<api::AnswerDelta>(*delta).timings;
  ASSERT_TRUE(timings);
  EXPECT_DOUBLE_EQ(timings->queue_ms, 5000);
  EXPECT_DOUBLE_EQ(timings->prompt_ms, 3000);
  EXPECT_EQ(timings->cached_tokens, 1U);
  EXPECT_EQ(timings->prompt_tokens, 3U);
}

TEST_F(Choice, what_was_held_back_comes_before_the_end) {
  AnswerChoice choice = this->choice();
  const Ended ended{pipeline::FinishReason::kLength, {}};
  (void)choice.take(Read{4, 4, 0});
  ASSERT_EQ(sim::fake_piece(23), "x");
  (void)choice.take(TokenId{23});  // may become a stop text
  const auto rest = choice.take(ended);
  ASSERT_TRUE(rest && std::holds_alternative<api::AnswerDelta>(*rest));
  EXPECT_FALSE(choice.ended());
  const auto end = choice.take(ended);
  ASSERT_TRUE(end && std::holds_alternative<api::Finished>(*end));
  EXPECT_TRUE(choice.ended());
  EXPECT_FALSE(choice.take(ended)) << "one end";
}

}  // namespace
}  // namespace salvage::gateway
