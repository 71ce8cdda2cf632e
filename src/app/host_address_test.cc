// Goal: what a person writes is taken as meant or refused. Method: texts; looking up stays within
// this machine.

#include "app/host_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::app {
namespace {

TEST(HostPort, names_and_numbers_with_and_without_a_port) {
  EXPECT_EQ(*parse_host_port("attic", 7420), (HostPort{"attic", 7420}));
  EXPECT_EQ(*parse_host_port("attic.lan:7000", 7420), (HostPort{"attic.lan", 7000}));
  EXPECT_EQ(*parse_host_port("10.0.0.2:1", 7420), (HostPort{"10.0.0.2", 1}));
  EXPECT_EQ(*parse_host_port("fd00::2", 7420), (HostPort{"fd00::2", 7420}));
  EXPECT_EQ(*parse_host_port("[fd00::2]", 7420), (HostPort{"fd00::2", 7420}));
  EXPECT_EQ(*parse_host_port("[fe80::2%eth0]:7000", 7420), (HostPort{"fe80::2%eth0", 7000}));
}

TEST(HostPort, slips_are_refused_and_quoted) {
  for (const char* text : {"", ":7420", "attic:", "attic:0", "attic:65536", "attic:x", "a b",
                           "attic:1:", "[fd00::2", "[fd00::2]7420", "[]:1", "http://attic"}) {
    const auto place = parse_host_port(text, 7420);
    const bool odd_but_numeric = std::string(text) == "attic:1:";  // looks like IPv6: looked up
    EXPECT_EQ(place.has_value(), odd_but_numeric) << text;
    if (place) continue;
    EXPECT_THAT(place.error().message(), ::testing::HasSubstr(text));
  }
}

TEST(ResolveHost, a_numeric_address_is_itself) {
  EXPECT_THAT(*resolve_host({"127.0.0.1", 7420}), ::testing::ElementsAre("tls:127.0.0.1:7420"));
  EXPECT_THAT(*resolve_host({"::1", 7420}), ::testing::ElementsAre("tls:[::1]:7420"));
}

}  // namespace
}  // namespace salvage::app
