#include "app/format.h"

#include <limits>

#include <gtest/gtest.h>

namespace salvage::app {
namespace {

TEST(Format, bytes_have_units_of_a_thousand_and_one_decimal) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.0 KB");
  EXPECT_EQ(format_bytes(98'400'000), "98.4 MB");
  EXPECT_EQ(format_bytes(21'300'000'000), "21.3 GB");
}

TEST(Format, bytes_never_round_up_to_a_thousand_of_a_unit) {
  EXPECT_EQ(format_bytes(999'949), "999.9 KB");
  EXPECT_EQ(format_bytes(999'950), "1.0 MB");
  EXPECT_EQ(format_bytes(999'999'999), "1.0 GB");
}

TEST(Format, the_largest_number_of_bytes_still_has_a_unit) {
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "18.4 EB");
}

TEST(Format, layers_are_named_by_the_first_and_the_last) {
  EXPECT_EQ(format_layers({0, 10}), "0-9");
  EXPECT_EQ(format_layers({7, 8}), "7-7");
  EXPECT_EQ(format_layers({3, 3}), "-");
}

TEST(Format, times_below_a_second_are_milliseconds) {
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(4.561), "4.56 s");
  EXPECT_EQ(format_seconds(0), "0.0 ms");
}

TEST(Format, rates_have_one_decimal) {
  EXPECT_EQ(format_rate(41.23), "41.2 tok/s");
}

TEST(FormatMemory, counts_in_powers_of_two) {
  EXPECT_EQ(format_memory(std::uint64_t{512} << 20), "512 MiB");
  EXPECT_EQ(format_memory(std::uint64_t{1} << 30), "1.0 GiB");
  EXPECT_EQ(format_memory(0), "0 MiB");
}

}  // namespace
}  // namespace salvage::app
