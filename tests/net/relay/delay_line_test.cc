// Goal: frames come out in order, whole, not a moment before their time, and never more than fit
// are kept. Method: time moved by hand; jitter with fixed seeds.

#include "relay/delay_line.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace salvage::relay {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint kStart{};

std::span<const std::byte> frame(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// What comes out until `now`.
std::vector<std::string> drained(DelayLine& line, TimePoint now) {
  std::vector<std::string> texts;
  while (const auto next = line.front(now)) {
    texts.emplace_back(reinterpret_cast<const char*>(next->data()), next->size());
    line.pop();
  }
  return texts;
}

TEST(DelayLine, a_frame_comes_out_when_its_delay_has_passed_and_not_before) {
  DelayLine line({.delay = milliseconds(5), .bytes_max = 1000});
  EXPECT_FALSE(line.due());
  EXPECT_TRUE(line.push(frame("one"), kStart));
  EXPECT_TRUE(line.push(frame("two"), kStart + milliseconds(2)));
  EXPECT_EQ(line.due(), kStart + milliseconds(5));
  EXPECT_TRUE(drained(line, kStart + milliseconds(5) - Duration(1)).empty());
  EXPECT_EQ(drained(line, kStart + milliseconds(5)), std::vector<std::string>{"one"});
  EXPECT_EQ(line.due(), kStart + milliseconds(7));
  EXPECT_EQ(drained(line, kStart + milliseconds(7)), std::vector<std::string>{"two"});
  EXPECT_FALSE(line.due());
}

TEST(DelayLine, jitter_makes_late_but_never_overtakes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    DelayLine line({.delay = milliseconds(5),
                    .jitter = milliseconds(10),
                    .seed = seed,
                    .bytes_max = std::size_t{1} << 20});
    std::vector<std::string> sent;
    for (int i = 0; i < 200; ++i) {
      const TimePoint now = kStart + milliseconds(i);
      sent.push_back(std::to_string(i));
      ASSERT_TRUE(line.push(frame(sent.back()), now));
    }
    EXPECT_GE(*line.due(), kStart + milliseconds(5));
    EXPECT_LE(*line.due(), kStart + milliseconds(15));
    EXPECT_EQ(drained(line, kStart + milliseconds(199 + 15)), sent);
  }
}

TEST(DelayLine, jitter_spreads_over_its_whole_range) {
  DelayLine line({.delay = milliseconds(5), .jitter = milliseconds(10), .bytes_max = 1000});
  Duration shortest = Duration::max();
  Duration longest{};
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = kStart + milliseconds(100 * i);
    ASSERT_TRUE(line.push(frame("x"), now));
    const Duration took = *line.due() - now;
    shortest = std::min(shortest, took);
    longest = std::max(longest, took);
    line.pop();
  }
  EXPECT_GE(shortest, milliseconds(5));
  EXPECT_LT(shortest, milliseconds(5) + std::chrono::microseconds(200));
  EXPECT_LE(longest, milliseconds(15));
  EXPECT_GT(longest, milliseconds(15) - std::chrono::microseconds(200));
}

TEST(DelayLine, what_does_not_fit_is_dropped_and_counted_and_room_comes_back) {
  const std::string big(100, 'x');
  DelayLine line(
      {.delay = milliseconds(1), .bytes_max = 2 * (big.size() + DelayLine::kFrameOverheadBytes)});
  EXPECT_TRUE(line.push(frame(big), kStart));
  EXPECT_TRUE(line.push(frame(big), kStart));
  EXPECT_FALSE(line.push(frame(""), kStart));
  EXPECT_EQ(line.counts().dropped, 1U);
  EXPECT_EQ(drained(line, kStart + milliseconds(1)).size(), 2U);
  EXPECT_TRUE(line.push(frame(big), kStart + milliseconds(1)));
  EXPECT_EQ(line.counts().frames, 2U);
  EXPECT_EQ(line.counts().bytes, 2 * big.size());
}

}  // namespace
}  // namespace salvage::relay
