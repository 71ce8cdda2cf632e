// Goal: deadlines never overflow and the manual clock moves only by hand.

#include "base/clock.h"

#include <gtest/gtest.h>

namespace salvage {
namespace {

using std::chrono::milliseconds;

TEST(Clock, a_manual_clock_stands_still_until_told) {
  ManualClock clock;
  const TimePoint begin = clock.now();
  EXPECT_EQ(clock.now(), begin);
  clock.advance(milliseconds(5));
  EXPECT_EQ(microseconds_between(begin, clock.now()), 5000);
}

TEST(Clock, the_steady_clock_does_not_go_back) {
  SteadyClock clock;
  const TimePoint begin = clock.now();
  EXPECT_LE(begin, clock.now());
}

TEST(Clock, waiting_for_ever_is_no_deadline) {
  const TimePoint now = SteadyClock().now();
  EXPECT_EQ(deadline_after(now, Duration::max()), kNoDeadline);
  EXPECT_EQ(deadline_after(now, milliseconds(1)), now + milliseconds(1));
}

}  // namespace
}  // namespace salvage
