// Goal: chunks of a request that is over are left out by stages that can, whichever of them had
// begun what, and nobody afterwards starts from what was not computed.
// Method: scheduler_driver.h, whose stages leave a step out from a chosen stage on; random
// histories of the same are in scheduler_test.cc.

#include <array>

#include <gtest/gtest.h>

#include "pipeline/scheduler_driver.h"
#include "pipeline/scheduler_limits.h"

namespace salvage::pipeline {
namespace {

SchedulerLimits three_stages() {
  return {.stage_count = 3, .rows_max = 8, .in_flight_max = 7, .chunk_rows = 8, .can_skip = true};
}

std::vector<std::uint64_t> numbers(const std::vector<StepId>& steps) {
  std::vector<std::uint64_t> numbers;
  for (const StepId step : steps) numbers.push_back(step.value);
  return numbers;
}

TEST(Skipping, what_was_not_begun_is_left_out_and_the_rest_is_kept) {
  Driver driver(three_stages());
  const RequestId gone = driver.submit(tokens_from(0, 800), 1);
  driver.send_all();
  driver.receive_one();
  // Of seven steps one is done, and all stages compute one more.
  int listed = 0;
  driver.skips_from = [&] { return listed++ < 1 ? std::size_t{3} : std::size_t{0}; };
  driver.finish(gone);
  EXPECT_EQ(listed, 6);
  EXPECT_FALSE(driver.scheduler.next().has_value());
  EXPECT_EQ(driver.pipeline.rows_seen(), 2U * 8);
  driver.run();
  const RequestId again = driver.submit(tokens_from(0, 800), 1);
  driver.run();
  EXPECT_EQ(driver.scheduler.sequences()[0].tokens, 800U);
  EXPECT_EQ(driver.pipeline.rows_seen(), 800U) << "nothing is read twice";
  EXPECT_EQ(driver.answers.at(again).tokens, answer_alone(tokens_from(0, 800), 1));
}

TEST(Skipping, a_stage_that_was_further_is_cut_back) {
  for (const bool trims : {true, false}) {
    SchedulerLimits limits = three_stages();
    limits.can_trim = trims;
    limits.checkpoint_count = trims ? 0 : 4;
    Driver driver(limits);
    const RequestId gone = driver.submit(tokens_from(0, 800), 1);
    driver.send_all();
    driver.receive_one();
    // The first stage computes three more, the second two, the third one.
    std::size_t listed = 0;
    driver.skips_from = [&] { return std::array<std::size_t, 6>{3, 2, 1, 0, 0, 0}.at(listed++); };
    driver.finish(gone);
    driver.receive_one();  // the step that all have computed; what comes before is sure
    const RequestId again = driver.submit(tokens_from(0, 300), 3);
    driver.run();
    EXPECT_EQ(driver.answers.at(again).tokens, answer_alone(tokens_from(0, 300), 3));
    EXPECT_EQ(driver.pipeline.trims(), trims ? 1U : 0U);
  }
}

TEST(Skipping, who_comes_before_the_results_starts_from_what_is_sure) {
  Driver driver(three_stages());
  const RequestId gone = driver.submit(tokens_from(0, 800), 1);
  driver.send_all();
  driver.receive_one();
  driver.receive_one();
  driver.finish(gone);
  driver.submit(tokens_from(0, 800), 1);
  driver.receive_one();  // room for a step
  ASSERT_TRUE(driver.scheduler.next().has_value());
  EXPECT_EQ(driver.scheduler.sequences()[0].reused_tokens, 16U);
}

TEST(Skipping, goes_for_the_prompt_s_last_token_too) {
  Driver driver(three_stages());
  const RequestId gone = driver.submit(tokens_from(0, 25), 9);
  driver.send_all();
  EXPECT_EQ(driver.scheduler.in_flight(), 4U) << "three chunks, and a token in a step of its own";
  driver.finish(gone);
  driver.run();
  EXPECT_EQ(driver.pipeline.rows_seen(), 0U);
  EXPECT_EQ(driver.scheduler.sequences()[0].tokens, 0U);
}

TEST(Skipping, is_not_asked_for_where_a_stage_does_not_know_it) {
  SchedulerLimits limits = three_stages();
  limits.can_skip = false;
  Driver driver(limits);
  const RequestId gone = driver.submit(tokens_from(0, 800), 1);
  driver.send_all();
  EXPECT_TRUE(driver.scheduler.finish(gone).empty());
}

TEST(Skipping, is_never_of_a_step_that_somebody_decodes_in) {
  SchedulerLimits limits = three_stages();
  limits.sequence_count = 2;
  Driver driver(limits);
  const RequestId one = driver.submit(tokens_from(0, 4), 300);
  const RequestId other = driver.submit(tokens_from(100, 4), 300);
  driver.run_until([&] { return driver.answers.at(other).tokens.size() > 2; });
  driver.send_all();
  EXPECT_TRUE(driver.scheduler.finish(one).empty());
}

TEST(Skipping, is_never_of_what_another_sequence_was_begun_with) {
  SchedulerLimits limits = three_stages();
  limits.sequence_count = 2;
  limits.rows_max = limits.chunk_rows = 32;
  Driver driver(limits);
  const RequestId first = driver.submit(tokens_from(0, 400), 1);
  for (int step = 0; step < 4; ++step) driver.pipeline.send(*driver.scheduler.next());
  // Begins with the 128 tokens that are on their way, and then differs.
  auto prompt = tokens_from(0, 128);
  prompt.resize(300, 7777);
  const RequestId second = driver.submit(prompt, 2);
  driver.send_all();
  ASSERT_EQ(driver.scheduler.reused_count(second), 128U);
  const std::vector<StepId> spared = driver.scheduler.finish(first);
  for (const std::uint64_t step : numbers(spared)) EXPECT_GT(step, 4U);
  driver.pipeline.skip(spared, driver.skips_from);
  driver.run();
  expect_as_alone(driver);
  EXPECT_EQ(driver.answers.at(second).tokens.size(), 2U);
}

// A running state goes back to a checkpoint. The conversation's own, from where the cancelled turn
// began, was there before.
TEST(Skipping, keeps_the_checkpoint_that_a_cancelled_turn_began_with) {
  SchedulerLimits limits = three_stages();
  limits.can_trim = false;
  limits.checkpoint_count = 4;
  Driver driver(limits);
  driver.submit(Submission{.request = {}, .prompt = tokens_from(0, 200), .turn = 190}, 20);
  driver.run();
  const auto turn = [](TokenId word) {
    auto prompt = tokens_from(0, 190);
    prompt.resize(400, word);
    return Submission{.request = {}, .prompt = prompt, .turn = 390};
  };
  const RequestId gone = driver.submit(turn(7777), 5);
  driver.send_all();
  ASSERT_EQ(driver.scheduler.reused_count(gone), 190U);
  driver.finish(gone);
  EXPECT_GT(driver.pipeline.skips(), 0U) << "nothing is lost by that";
  driver.run();
  const RequestId again = driver.submit(turn(8888), 5);
  driver.send_all();
  EXPECT_EQ(driver.scheduler.reused_count(again), 190U);
  driver.run();
  expect_as_alone(driver);
}

TEST(Skipping, costs_a_running_state_no_more_than_it_spares) {
  SchedulerLimits limits = three_stages();
  limits.can_trim = false;
  Driver driver(limits);
  std::uint32_t reused = 0;
  // Who gives up and asks again gets further each time.
  for (int round = 0; round < 5; ++round) {
    const RequestId gone = driver.submit(tokens_from(0, 1900), 1);
    for (int i = 0; i < 20; ++i) {
      driver.send_all();
      driver.receive_one();
    }
    if (round > 0) {
      EXPECT_GT(driver.scheduler.reused_count(gone), reused);
    }
    reused = driver.scheduler.reused_count(gone);
    driver.finish(gone);
    driver.run();
  }
}

// The borrower goes back to a checkpoint that the lender's step saves, which is still under way.
TEST(Skipping, is_never_of_a_step_that_saves_what_another_sequence_restores) {
  SchedulerLimits limits = three_stages();
  limits.can_trim = false;
  limits.checkpoint_count = 4;
  limits.sequence_count = 2;
  limits.rows_max = limits.chunk_rows = 100;
  Driver driver(limits);
  const RequestId lender =
      driver.submit(Submission{.request = {}, .prompt = tokens_from(0, 600), .turn = 200}, 1);
  for (int step = 0; step < 4; ++step) driver.pipeline.send(*driver.scheduler.next());
  auto prompt = tokens_from(0, 250);
  prompt.resize(500, 7777);
  const RequestId borrower = driver.submit(prompt, 2);
  driver.send_all();
  ASSERT_EQ(driver.scheduler.reused_count(borrower), 200U);
  driver.finish(lender);
  driver.run();
  expect_as_alone(driver);
  EXPECT_EQ(driver.answers.at(borrower).tokens.size(), 2U);
}

TEST(Skipping, a_step_left_out_unasked_is_an_error) {
  Scheduler scheduler(three_stages());
  ASSERT_TRUE(scheduler.submit({.request = {1}, .prompt = tokens_from(0, 80)}));
  const StepId step = scheduler.next()->step;
  const auto outcome = scheduler.on_result(step, true);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kInternal);
}

TEST(SchedulerLimits, steps_are_left_out_by_all_stages_or_none) {
  const StageAbility can{.can_skip = true};
  const StageAbility cannot;
  EXPECT_TRUE(scheduler_limits({}, std::array{can, can}).can_skip);
  EXPECT_FALSE(scheduler_limits({}, std::array{can, cannot}).can_skip);
  EXPECT_FALSE(scheduler_limits({}, {}).can_skip);
}

}  // namespace
}  // namespace salvage::pipeline
