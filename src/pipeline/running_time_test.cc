// Goal: a sum of times that is right also in the middle of one.

#include "pipeline/running_time.h"

#include <gtest/gtest.h>

namespace salvage::pipeline {
namespace {

using std::chrono::microseconds;

TEST(RunningTime, counts_what_runs_and_what_has_ended) {
  ManualClock clock;
  RunningTime time;
  EXPECT_EQ(time.us(clock.now()), 0U);
  time.begin(clock.now());
  clock.advance(microseconds(30));
  EXPECT_EQ(time.us(clock.now()), 30U) << "in the middle";
  clock.advance(microseconds(10));
  time.end(clock.now());
  clock.advance(microseconds(500));
  EXPECT_EQ(time.us(clock.now()), 40U) << "not while it is not the case";
  time.begin(clock.now());
  clock.advance(microseconds(2));
  EXPECT_EQ(time.us(clock.now()), 42U);
}

TEST(RunningTime, is_never_less_than_it_was_told) {
  ManualClock clock;
  RunningTime time;
  time.begin(clock.now());
  clock.advance(microseconds(30));
  const TimePoint later = clock.now() + microseconds(5);
  EXPECT_EQ(time.us(later), 35U);
  time.end(clock.now());
  EXPECT_EQ(time.us(later), 35U);
}

TEST(RunningTime, an_end_without_a_beginning_is_nothing) {
  ManualClock clock;
  RunningTime time;
  clock.advance(microseconds(30));
  time.end(clock.now());
  EXPECT_EQ(time.us(clock.now()), 0U);
}

TEST(RunningTime, a_reset_begins_anew) {
  ManualClock clock;
  RunningTime time;
  time.begin(clock.now());
  clock.advance(microseconds(30));
  time.end(clock.now());
  EXPECT_EQ(time.reset(), 30U);
  EXPECT_EQ(time.us(clock.now()), 0U);
}

}  // namespace
}  // namespace salvage::pipeline
