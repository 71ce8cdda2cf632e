// Goal: short work says nothing, long work says where it is, logs stay short. Method: a clock moved
// by hand; standard error, which is no terminal here, is caught.

#include "app/progress.h"

#include <chrono>

#include <gtest/gtest.h>

namespace salvage::app {
namespace {

using std::chrono::seconds;

template <typename Body>
std::string caught(Body body) {
  ::testing::internal::CaptureStderr();
  body();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Progress, says_nothing_of_short_work) {
  EXPECT_EQ(caught([] {
              ManualClock clock;
              Progress progress(clock, false);
              for (int i = 0; i <= 100; ++i) progress.update("loading", i / 100.0);
            }),
            "");
}

TEST(Progress, says_nothing_when_it_shall_be_quiet) {
  EXPECT_EQ(caught([] {
              ManualClock clock;
              Progress progress(clock, true);
              clock.advance(seconds(10));
              progress.update("loading", 0.5);
            }),
            "");
}

TEST(Progress, writes_one_line_a_tenth_into_a_log) {
  EXPECT_EQ(caught([] {
              ManualClock clock;
              Progress progress(clock, false);
              clock.advance(seconds(2));
              for (int i = 0; i < 30; ++i) progress.update("loading", i / 100.0);
            }),
            "loading 0%\nloading 10%\nloading 20%\n");
}

TEST(Progress, says_when_something_else_begins) {
  EXPECT_EQ(caught([] {
              ManualClock clock;
              Progress progress(clock, false);
              clock.advance(seconds(2));
              progress.update("loading stage 0", 0.5);
              progress.update("loading stage 1", 0.5);
            }),
            "loading stage 0 50%\nloading stage 1 50%\n");
}

TEST(Progress, stays_within_its_bounds) {
  EXPECT_EQ(caught([] {
              ManualClock clock;
              Progress progress(clock, false);
              clock.advance(seconds(2));
              progress.update("loading", -1);
              progress.update("loading", 7);
            }),
            "loading 0%\nloading 100%\n");
}

}  // namespace
}  // namespace salvage::app
