// Goal: f32 is bit-exact, f16 is IEEE's, q8 is within half a step, and NaN, infinities and
// subnormals do what docs/wire.md says. Method: random rows of awkward widths, then the special
// values.

#include "wire/hidden.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "base/random.h"

namespace salvage::wire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

std::vector<float> there_and_back(const std::vector<float>& rows, std::uint32_t width,
                                  HiddenType type) {
  std::vector<std::byte> bytes;
  encode_hidden(rows, width, type, bytes);
  const HiddenShape shape{static_cast<std::uint32_t>(rows.size() / width), width, type};
  EXPECT_EQ(bytes.size(), hidden_bytes(shape));
  std::vector<float> back(rows.size());
  const auto decoded = decode_hidden(bytes, shape, back);
  EXPECT_TRUE(decoded);
  return back;
}

std::vector<float> random_rows(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> rows(count);
  for (float& value : rows) value = static_cast<float>((random.unit() - 0.5) * 20);
  return rows;
}

TEST(Hidden, names_and_numbers_of_types_agree) {
  for (const auto type : {HiddenType::kF32, HiddenType::kF16, HiddenType::kQ8}) {
    EXPECT_EQ(parse_hidden_type(hidden_type_name(type)), type);
  }
  EXPECT_FALSE(parse_hidden_type("F32"));
  EXPECT_FALSE(parse_hidden_type(""));
}

TEST(Hidden, f32_keeps_every_bit) {
  std::vector<float> rows = random_rows(70, 1);
  rows[3] = std::bit_cast<float>(0x7F800001U);
  rows[4] = kDenormal;
  rows[5] = -0.0F;
  const auto back = there_and_back(rows, 35, HiddenType::kF32);
  EXPECT_EQ(std::memcmp(rows.data(), back.data(), rows.size() * sizeof(float)), 0);
}

TEST(Hidden, f16_rounds_each_value_like_a_half) {
  std::vector<float> rows = random_rows(3 * 333, 2);
  rows[0] = kNan;
  rows[1] = kInfinity;
  rows[2] = -1e9F;
  rows[3] = 6e-8F;
  const auto back = there_and_back(rows, 333, HiddenType::kF16);
  EXPECT_TRUE(std::isnan(back[0]));
  EXPECT_EQ(back[1], kInfinity);
  EXPECT_EQ(back[2], -kInfinity);
  for (std::size_t i = 3; i < rows.size(); ++i) {
    EXPECT_EQ(back[i], half_to_float(float_to_half(rows[i])));
  }
}

TEST(Hidden, q8_is_within_half_a_step_of_its_block) {
  for (const std::uint32_t width : {1U, 31U, 32U, 33U, 100U, 4096U}) {
    const auto rows = random_rows(std::size_t{2} * width, width);
    const auto back = there_and_back(rows, width, HiddenType::kQ8);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t row = i / width;
      const std::size_t begin = row * width + (i - row * width) / 32 * 32;
      const std::size_t end = std::min(begin + 32, (row + 1) * width);
      float largest = 0;
      for (std::size_t j = begin; j < end; ++j) largest = std::max(largest, std::abs(rows[j]));
      ASSERT_LE(std::abs(rows[i] - back[i]), largest / 127 * 0.5001F) << width << " " << i;
    }
  }
}

TEST(Hidden, q8_keeps_the_largest_of_a_block_and_the_zeros) {
  std::vector<float> rows(64, 0.0F);
  rows[40] = -127.0F;
  rows[41] = 1.0F;
  EXPECT_EQ(there_and_back(rows, 64, HiddenType::kQ8), rows);
}

TEST(Hidden, q8_turns_nan_into_zero_and_infinity_into_the_largest) {
  std::vector<float> rows(32, 0.0F);
  rows[0] = kNan;
  rows[1] = 1.0F;
  auto back = there_and_back(rows, 32, HiddenType::kQ8);
  EXPECT_EQ(back[0], 0.0F);
  EXPECT_EQ(back[1], 1.0F);

  rows[2] = kInfinity;
  rows[3] = -std::numeric_limits<float>::max();
  back = there_and_back(rows, 32, HiddenType::kQ8);
  EXPECT_TRUE(std::isfinite(back[2]));
  EXPECT_NEAR(back[2], 3.4e38F, 1e33F);
  EXPECT_EQ(back[3], -back[2]);
}

TEST(Hidden, q8_writes_a_block_of_subnormals_as_zeros) {
  const std::vector<float> rows(32, kDenormal);
  const auto back = there_and_back(rows, 32, HiddenType::kQ8);
  for (const float value : back) EXPECT_EQ(value, 0.0F);
}

TEST(Hidden, bytes_of_another_size_are_refused) {
  std::vector<float> rows(10);
  const std::vector<std::byte> bytes(19);
  EXPECT_FALSE(decode_hidden(bytes, {1, 10, HiddenType::kF16}, rows));
  EXPECT_FALSE(decode_hidden(bytes, {1, 10, HiddenType::kQ8}, rows));
  EXPECT_FALSE(decode_hidden({}, {0, 0, HiddenType::kF32}, rows));
}

TEST(FloatBuffer, is_aligned_keeps_its_memory_and_reports_what_it_cannot_have) {
  FloatBuffer buffer;
  ASSERT_TRUE(buffer.resize(1000));
  const float* first = buffer.floats().data();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
  ASSERT_TRUE(buffer.resize(10));
  EXPECT_EQ(buffer.floats().data(), first);
  EXPECT_EQ(buffer.bytes().size(), 40U);
  const auto huge = buffer.resize(std::uint64_t{1} << 62);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(buffer.floats().empty());
}

}  // namespace
}  // namespace salvage::wire
