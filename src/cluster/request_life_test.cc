// Goal: a request's state follows its epoch, and late events change nothing.

#include "cluster/request_life.h"

#include <gtest/gtest.h>

namespace salvage::cluster {
namespace {

TEST(RequestLife, goes_from_the_queue_to_its_end) {
  RequestLife life(RequestId{1}, 10);
  EXPECT_EQ(life.state(), RequestState::kQueued);
  EXPECT_FALSE(life.token(PlanEpoch{1}));
  EXPECT_TRUE(life.start(PlanEpoch{1}));
  EXPECT_TRUE(life.prefilled(PlanEpoch{1}, 6));
  EXPECT_EQ(life.state(), RequestState::kPrefill);
  EXPECT_FALSE(life.finish());
  EXPECT_TRUE(life.prefilled(PlanEpoch{1}, 10));
  EXPECT_EQ(life.state(), RequestState::kDecode);
  EXPECT_TRUE(life.token(PlanEpoch{1}));
  EXPECT_TRUE(life.finish());
  EXPECT_TRUE(life.over());
  EXPECT_FALSE(life.cancel());
  EXPECT_FALSE(life.fail("late"));
  EXPECT_EQ(life.reason(), "");
  EXPECT_EQ(life.answer_tokens(), 1);
}

TEST(RequestLife, events_of_another_epoch_change_nothing) {
  RequestLife life(RequestId{1}, 4);
  ASSERT_TRUE(life.start(PlanEpoch{5}));
  EXPECT_FALSE(life.start(PlanEpoch{5}));
  EXPECT_FALSE(life.start(PlanEpoch{4}));
  EXPECT_FALSE(life.prefilled(PlanEpoch{4}, 4));
  EXPECT_FALSE(life.prefilled(PlanEpoch{5}, 5)) << "more than there are";
  EXPECT_FALSE(life.requeue(PlanEpoch{4}));
  EXPECT_EQ(life.prefilled_tokens(), 0);
}

TEST(RequestLife, a_lost_epoch_is_taken_up_again_with_the_answer_so_far) {
  RequestLife life(RequestId{1}, 4);
  ASSERT_TRUE(life.start(PlanEpoch{1}));
  ASSERT_TRUE(life.prefilled(PlanEpoch{1}, 4));
  ASSERT_TRUE(life.token(PlanEpoch{1}));
  ASSERT_TRUE(life.token(PlanEpoch{1}));
  EXPECT_TRUE(life.requeue(PlanEpoch{1}));
  EXPECT_EQ(life.state(), RequestState::kQueued);
  EXPECT_FALSE(life.token(PlanEpoch{1})) << "a late one of the old epoch";
  ASSERT_TRUE(life.start(PlanEpoch{2}));
  EXPECT_EQ(life.restarts(), 1);
  EXPECT_TRUE(life.prefilled(PlanEpoch{2}, 4));
  EXPECT_EQ(life.state(), RequestState::kPrefill) << "two tokens of the answer are missing";
  EXPECT_TRUE(life.prefilled(PlanEpoch{2}, 6));
  EXPECT_EQ(life.state(), RequestState::kDecode);
}

TEST(RequestLife, may_end_at_any_time) {
  RequestLife queued(RequestId{1}, 4);
  EXPECT_TRUE(queued.cancel());
  EXPECT_EQ(request_state_name(queued.state()), "cancelled");
  EXPECT_FALSE(queued.start(PlanEpoch{1}));
  RequestLife running(RequestId{2}, 4);
  ASSERT_TRUE(running.start(PlanEpoch{1}));
  EXPECT_TRUE(running.fail("stage 1 died"));
  EXPECT_EQ(running.reason(), "stage 1 died");
  EXPECT_FALSE(running.prefilled(PlanEpoch{1}, 4));
}

}  // namespace
}  // namespace salvage::cluster
