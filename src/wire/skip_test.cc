// Goal: a skip frame comes back as it was written, and what no sender writes is refused.

#include "wire/skip.h"

#include <gtest/gtest.h>

#include "wire/data_generate.h"

namespace salvage::wire {
namespace {

std::vector<std::byte> body_of(const Skip& skip) {
  std::vector<std::byte> body;
  EXPECT_TRUE(encode(skip, body));
  return body;
}

TEST(Skip, comes_back_as_it_was_written) {
  Skip back;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Skip skip = generate_skip(seed);
    ASSERT_TRUE(decode({}, body_of(skip), back));
    EXPECT_EQ(back, skip);
  }
}

TEST(Skip, of_too_many_steps_or_none_in_order_is_refused) {
  std::vector<std::byte> body;
  Skip many;
  for (std::uint64_t step = 1; step <= kSkipStepsMax + 1; ++step) many.steps.push_back({step});
  EXPECT_FALSE(encode(many, body));
  many.steps.pop_back();
  EXPECT_TRUE(encode(many, body));
  EXPECT_FALSE(encode(Skip{{{2}, {1}}}, body));
  EXPECT_FALSE(encode(Skip{{{2}, {2}}}, body)) << "twice the same";
}

TEST(Skip, that_is_cut_or_damaged_is_refused) {
  const std::vector<std::byte> good = body_of(Skip{{{3}, {9}}});
  Skip back;
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(decode({}, std::span(good).first(size), back)) << size;
  }
  auto longer = good;
  longer.push_back({});
  EXPECT_FALSE(decode({}, longer, back));
  FrameHeader with_data;
  with_data.data_bytes = 8;
  EXPECT_FALSE(decode(with_data, good, back));
  auto disordered = good;
  disordered[8] = std::byte{200};
  EXPECT_FALSE(decode({}, disordered, back));
  auto huge = good;
  huge[3] = std::byte{255};
  EXPECT_FALSE(decode({}, huge, back));
}

}  // namespace
}  // namespace salvage::wire
