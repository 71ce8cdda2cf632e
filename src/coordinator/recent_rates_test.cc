// Goal: rates are those of the last seconds, and never wrong ones after a restart or a silence.

#include "coordinator/recent_rates.h"

#include <chrono>

#include <gtest/gtest.h>

namespace salvage::coordinator {
namespace {

using std::chrono::milliseconds;

TimePoint at(int ms) {
  return TimePoint{} + milliseconds(ms);
}

TEST(RecentRates, are_of_the_time_between_the_first_and_the_last_sample) {
  RecentRates rates;
  EXPECT_FALSE(rates.at(at(0)));
  rates.add(at(0), {.busy_us = 1'000'000, .bytes_out = 500});
  EXPECT_FALSE(rates.at(at(0))) << "one sample is no rate";
  rates.add(at(2000), {.busy_us = 1'500'000, .bytes_out = 4500});
  const auto now = rates.at(at(2100));
  ASSERT_TRUE(now);
  EXPECT_DOUBLE_EQ(now->busy, 0.25);
  EXPECT_DOUBLE_EQ(now->bytes_out_per_second, 2000);
}

TEST(RecentRates, what_is_longer_ago_than_ten_seconds_does_not_count) {
  RecentRates rates;
  std::uint64_t busy = 0;
  for (int ms = 0; ms < 30'000; ms += 500) {
    rates.add(at(ms), {.busy_us = busy, .bytes_out = 0});
    if (ms < 15'000) busy += 500'000;  // all the time, then never
  }
  EXPECT_DOUBLE_EQ(rates.at(at(29'500))->busy, 0);
}

TEST(RecentRates, end_when_nobody_reports_any_more) {
  RecentRates rates;
  rates.add(at(0), {});
  rates.add(at(1000), {.bytes_out = 10});
  EXPECT_TRUE(rates.at(at(5000)));
  EXPECT_FALSE(rates.at(at(7000)));
}

TEST(RecentRates, counters_that_begin_anew_are_no_negative_rate) {
  RecentRates rates;
  rates.add(at(0), {.busy_us = 900, .bytes_out = 900});
  rates.add(at(1000), {.busy_us = 5, .bytes_out = 5});
  EXPECT_FALSE(rates.at(at(1000)));
  rates.add(at(2000), {.busy_us = 5, .bytes_out = 105});
  EXPECT_DOUBLE_EQ(rates.at(at(2000))->bytes_out_per_second, 100);
}

TEST(RecentRates, samples_that_come_too_fast_are_left_out) {
  RecentRates rates;
  for (int ms = 0; ms < 300; ms += 10) rates.add(at(ms), {.bytes_out = 100});
  EXPECT_FALSE(rates.at(at(300)));
  rates.add(at(500), {.bytes_out = 600});
  EXPECT_DOUBLE_EQ(rates.at(at(500))->bytes_out_per_second, 1000);
}

TEST(RecentRates, a_link_whose_time_is_not_known_is_not_idle) {
  RecentRates rates;
  rates.add(at(0), {.out_busy_us = 0});
  rates.add(at(1000), {.out_busy_us = 100'000});
  EXPECT_DOUBLE_EQ(rates.at(at(1000))->out_busy.value(), 0.1);
  rates.add(at(2000), {.out_busy_us = 9'000'000});
  EXPECT_DOUBLE_EQ(rates.at(at(2000))->out_busy.value(), 1) << "never more than all the time";
  RecentRates unknown;
  unknown.add(at(0), {});
  unknown.add(at(1000), {.bytes_out = 1});
  EXPECT_FALSE(unknown.at(at(1000))->out_busy);
}

}  // namespace
}  // namespace salvage::coordinator
