// Goal: conversion is exactly IEEE's. Method: all 65,536 halves there and back, and rounding
// against an independent definition in double arithmetic (nearest of the neighbouring halves, ties
// to even).

#include "base/float16.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace salvage {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a half means, by the book.
double half_value(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

// The nearest half of a finite, non-negative float, found by bisection over the ordered halves.
std::uint16_t nearest_half(float value) {
  std::uint16_t low = 0;
  std::uint16_t high = 0x7C00;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (half_value(middle) <= value ? low : high) = middle;
  }
  // Beyond the largest half, the next step of the grid stands for infinity.
  const double above = high == 0x7C00 ? 65536.0 : half_value(high);
  const double down = value - half_value(low);
  const double up = above - value;
  if (down == up) return (low & 1) == 0 ? low : high;
  return down < up ? low : high;
}

TEST(Float16, every_half_survives_the_way_to_float_and_back) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const float value = half_to_float(half);
    if (std::isnan(half_value(half))) {
      EXPECT_TRUE(std::isnan(value)) << i;
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value)))) << i;
    } else {
      ASSERT_EQ(value, half_value(half)) << i;
      ASSERT_EQ(float_to_half(value), half) << i;
    }
  }
}

TEST(Float16, rounds_to_the_nearest_half_and_ties_to_even) {
  Random random(7);
  for (int i = 0; i < 200000; ++i) {
    // Exponents from far below the smallest subnormal to beyond the largest half.
    const int exponent = static_cast<int>(random.below(50)) - 32;
    const auto value = static_cast<float>(std::ldexp(1.0 + random.unit(), exponent));
    ASSERT_EQ(float_to_half(value), nearest_half(value)) << value;
    ASSERT_EQ(float_to_half(-value), nearest_half(value) | 0x8000) << value;
  }
  for (std::uint16_t half = 0; half < 0x7BFF; ++half) {
    const auto next = static_cast<std::uint16_t>(half + 1);
    const auto middle = static_cast<float>((half_value(half) + half_value(next)) / 2);
    ASSERT_EQ(float_to_half(middle), (half & 1) == 0 ? half : next) << half;
  }
}

TEST(Float16, the_ends_of_the_range) {
  EXPECT_EQ(float_to_half(65504.0F), 0x7BFF);
  EXPECT_EQ(float_to_half(65519.996F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7C00);
  EXPECT_EQ(float_to_half(kInfinity), 0x7C00);
  EXPECT_EQ(float_to_half(-kInfinity), 0xFC00);
  EXPECT_EQ(float_to_half(-0.0F), 0x8000);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
  // A signalling NaN whose payload lies only in the low bits must not become infinity.
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::bit_cast<float>(0x7F800001)))));
}

TEST(Float16, whole_rows_equal_single_values) {
  Random random(3);
  std::vector<float> floats(1003);
  for (auto& value : floats) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  std::vector<std::uint16_t> halves(floats.size());
  floats_to_halves(floats, halves);
  std::vector<float> back(floats.size());
  halves_to_floats(halves, back);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    EXPECT_EQ(halves[i], float_to_half(floats[i]));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(back[i]),
              std::bit_cast<std::uint32_t>(half_to_float(halves[i])));
  }
}

}  // namespace
}  // namespace salvage
