#include "app/port_range.h"

#include <gtest/gtest.h>

namespace salvage::app {
namespace {

TEST(PortRange, is_two_ports_or_one) {
  const auto two = parse_port_range("7421-7436");
  ASSERT_TRUE(two);
  EXPECT_EQ(two->first, 7421);
  EXPECT_EQ(two->last, 7436);
  const auto one = parse_port_range("7421");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->first, one->last);
}

TEST(PortRange, is_nothing_else) {
  for (const char* text : {"", "-", "7-", "-7", "9-8", "0-4", "1-65536", "a-b", "7421-7436x",
                           "1 - 2", "7421-7425-7436"}) {
    EXPECT_FALSE(parse_port_range(text)) << text;
  }
}

}  // namespace
}  // namespace salvage::app
