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

// A transfer of so many seconds in steps of a tenth.
void transfer(Pacer& pacer, ManualClock& clock, std::uint64_t bytes_per_second, int time_s) {
  for (int i = 0; i < time_s * 10; ++i) {
    pacer.sent(bytes_per_second / 10);
    clock.advance(milliseconds(100));
  }
}

TEST(Pacer, leaves_most_of_the_wire_to_answers) {
  ManualClock clock;
  clock.advance(seconds(1));
  Pacer pacer(clock);
  transfer(pacer, clock, 12'000'000, 3);
  pacer.stage_active();
  EXPECT_LT(pacer.rate(), 6'000'000U);
  EXPECT_GT(pacer.rate(), 1'000'000U);
}

TEST(Pacer, does_not_take_a_buffer_for_a_wire) {
  ManualClock clock;
  clock.advance(seconds(1));
  Pacer pacer(clock);
  for (int i = 0; i < 4; ++i) pacer.sent(1'000'000);  // at once: into the socket's buffer
  transfer(pacer, clock, 12'000'000, 3);
  pacer.stage_active();
  EXPECT_LT(pacer.rate(), 6'000'000U);
}

TEST(Pacer, forgets_a_rate_that_does_not_come_again) {
  ManualClock clock;
  clock.advance(seconds(1));
  Pacer pacer(clock);
  transfer(pacer, clock, 100'000'000, 3);
  transfer(pacer, clock, 1'000'000, 400);
  pacer.stage_active();
  EXPECT_LT(pacer.rate(), 1'000'000U);
}

}  // namespace
}  // namespace salvage::agent
