#include "agent/pacer.h"

#include <gtest/gtest.h>

namespace salvage::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Pacer, holds_nothing_back_while_nobody_is_answered) {
  ManualClock clock;
  clock.advance(seconds(1));
  Pacer pacer(clock);
  EXPECT_EQ(pacer.rate(), 0U);
  pacer.stage_active();
  EXPECT_GT(pacer.rate(), 0U);
  clock.advance(seconds(5));
  EXPECT_EQ(pacer.rate(), 0U);
}

TEST(Pacer, leaves_most_of_the_wire_to_answers) {
  ManualClock clock;
  clock.advance(seconds(1));
  Pacer pacer(clock);
  pacer.sent(12'000'000, seconds(1));
  pacer.sent(1'000, milliseconds(1));  // too short to tell anything
  pacer.stage_active();
  EXPECT_LT(pacer.rate(), 6'000'000U);
  EXPECT_GT(pacer.rate(), 1'000'000U);
}

TEST(Pacer, forgets_a_rate_that_does_not_come_again) {
  ManualClock clock;
  clock.advance(seconds(1));
  Pacer pacer(clock);
  pacer.sent(100'000'000, seconds(1));
  for (int i = 0; i < 500; ++i) pacer.sent(1'000'000, seconds(1));
  pacer.stage_active();
  EXPECT_LT(pacer.rate(), 1'000'000U);
}

}  // namespace
}  // namespace salvage::agent
