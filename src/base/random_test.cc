// Goal: secrets have the right shape and differ, seeded numbers are the same for ever.

#include "base/random.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace salvage {
namespace {

TEST(RandomHex, gives_two_lower_case_digits_a_byte_and_never_the_same_twice) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const auto token = random_hex(32);
    ASSERT_TRUE(token);
    ASSERT_EQ(token->size(), 64U);
    EXPECT_EQ(token->find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(seen.insert(*token).second);
  }
}

TEST(EqualConstantTime, agrees_with_ordinary_comparison) {
  EXPECT_TRUE(equal_constant_time("", ""));
  EXPECT_TRUE(equal_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_constant_time("abc", "bbc"));
  EXPECT_FALSE(equal_constant_time("abc", "ab"));
  EXPECT_FALSE(equal_constant_time("abc", "abc\x80"));
}

// Pinned: a seed in a bug report must still mean the same numbers next year.
TEST(Random, the_same_seed_gives_the_same_numbers_for_ever) {
  Random random(42);
  EXPECT_EQ(random(), 1546998764402558742ULL);
  EXPECT_EQ(random(), 6990951692964543102ULL);
  Random again(42);
  EXPECT_EQ(again(), 1546998764402558742ULL);
  Random other(43);
  EXPECT_NE(other(), 1546998764402558742ULL);
}

TEST(Random, below_reaches_every_number_under_its_bound_and_no_other) {
  Random random(1);
  std::array<int, 7> hits{};
  for (int i = 0; i < 7000; ++i) {
    const auto number = random.below(7);
    ASSERT_LT(number, 7U);
    ++hits[number];
  }
  EXPECT_GT(*std::min_element(hits.begin(), hits.end()), 850);
}

TEST(Random, unit_stays_below_one) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const double number = random.unit();
    ASSERT_GE(number, 0.0);
    ASSERT_LT(number, 1.0);
  }
}

}  // namespace
}  // namespace salvage
