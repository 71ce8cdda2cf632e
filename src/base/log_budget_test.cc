// Goal: a burst is told in full, a flood once a second, and nothing is left out in silence.
// Method: time is moved by hand.

#include "base/log_budget.h"

#include <gtest/gtest.h>

namespace salvage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LogBudget, a_burst_is_told_line_by_line) {
  LogBudget budget;
  const TimePoint now{seconds(1000)};
  for (std::uint32_t i = 0; i < LogBudget::kLinesAtOnce; ++i) EXPECT_EQ(budget.take(now), 0U);
  EXPECT_FALSE(budget.take(now));
}

TEST(LogBudget, a_flood_is_told_once_a_second_with_what_was_left_out) {
  LogBudget budget;
  TimePoint now{seconds(1000)};
  std::uint64_t told = 0;
  std::uint64_t left_out = 0;
  for (int i = 0; i < 60'000; ++i) {
    now += milliseconds(1);
    const auto line = budget.take(now);
    told += line ? 1 : 0;
    left_out += line.value_or(0);
  }
  EXPECT_NEAR(static_cast<double>(told), LogBudget::kLinesAtOnce + 60, 1);
  EXPECT_GT(told + left_out, 58'990U) << "all but those of the last second";
}

TEST(LogBudget, quiet_earns_the_next_burst) {
  LogBudget budget;
  TimePoint now{seconds(1000)};
  while (budget.take(now)) {
  }
  now += seconds(5);
  EXPECT_EQ(budget.take(now), 1U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(budget.take(now), 0U);
  EXPECT_FALSE(budget.take(now));
}

}  // namespace
}  // namespace salvage
