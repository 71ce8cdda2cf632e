// Goal: beacons come when they should, and whatever others send costs a bounded amount of work.
// Method: time moved by hand.

#include "discovery/rhythm.h"

#include <gtest/gtest.h>

namespace salvage::discovery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart = TimePoint(seconds(1000));

TEST(BeaconRhythm, the_first_beacon_comes_at_once_and_then_one_in_five_seconds) {
  BeaconRhythm rhythm;
  EXPECT_TRUE(rhythm.due(kStart));
  EXPECT_FALSE(rhythm.due(kStart));
  EXPECT_FALSE(rhythm.due(kStart + seconds(5) - milliseconds(1)));
  EXPECT_EQ(rhythm.next(), kStart + seconds(5));
  EXPECT_TRUE(rhythm.due(kStart + seconds(5)));
}

TEST(BeaconRhythm, a_query_is_answered_soon) {
  BeaconRhythm rhythm;
  EXPECT_TRUE(rhythm.due(kStart));
  EXPECT_FALSE(rhythm.due(kStart + seconds(2)));
  rhythm.on_query();
  EXPECT_TRUE(rhythm.due(kStart + seconds(2)));
  EXPECT_FALSE(rhythm.due(kStart + seconds(3))) << "one answer a query";
}

TEST(BeaconRhythm, a_flood_of_queries_brings_two_beacons_a_second) {
  BeaconRhythm rhythm;
  int sent = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    rhythm.on_query();
    sent += rhythm.due(kStart + milliseconds(ms)) ? 1 : 0;
  }
  EXPECT_EQ(sent, 20);
}

TEST(BeaconFilter, only_so_many_signatures_are_checked_in_a_second) {
  BeaconFilter filter;
  int checked = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    checked += filter.affordable(kStart + milliseconds(ms)) ? 1 : 0;
  }
  EXPECT_EQ(checked, 10 * kChecksPerSecond);
}

TEST(BeaconFilter, a_repeated_or_older_beacon_of_a_boot_is_no_news) {
  BeaconFilter filter;
  EXPECT_TRUE(filter.is_new(1, 5));
  EXPECT_FALSE(filter.is_new(1, 5));
  EXPECT_FALSE(filter.is_new(1, 4));
  EXPECT_TRUE(filter.is_new(1, 6));
  EXPECT_TRUE(filter.is_new(2, 1)) << "a restarted coordinator counts from the beginning";
}

}  // namespace
}  // namespace salvage::discovery
