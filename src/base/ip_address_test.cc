// Goal: one address has one text, and nothing but numeric addresses is taken.

#include "base/ip_address.h"

#include <gtest/gtest.h>

namespace salvage {
namespace {

TEST(IpAddress, both_families_read_and_print_in_one_form) {
  const std::pair<const char*, const char*> pairs[] = {{"127.0.0.1", "127.0.0.1"},
                                                       {"255.255.255.255", "255.255.255.255"},
                                                       {"::1", "::1"},
                                                       {"0:0::1", "::1"},
                                                       {"FE80::00A1", "fe80::a1"},
                                                       {"::ffff:192.0.2.1", "::ffff:192.0.2.1"}};
  for (const auto& [text, canonical] : pairs) {
    const auto address = parse_ip_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_string(*address), canonical);
    EXPECT_EQ(byte_count(*address), address->v6 ? 16U : 4U);
  }
}

TEST(IpAddress, loopback_is_what_only_this_machine_reaches) {
  for (const char* const text : {"127.0.0.1", "127.8.9.10", "::1"}) {
    EXPECT_TRUE(is_loopback(*parse_ip_address(text))) << text;
  }
  for (const char* const text : {"0.0.0.0", "192.168.1.20", "::", "fd00::1", "::2", "7f00::1"}) {
    EXPECT_FALSE(is_loopback(*parse_ip_address(text))) << text;
  }
}

TEST(IpAddress, what_is_no_numeric_address_gives_nothing) {
  for (const std::string& text :
       {std::string(), std::string("localhost"), std::string("127.1"), std::string("1.2.3.256"),
        std::string("1.2.3.4 "), std::string("::1%lo"), std::string("[::1]"), std::string(":"),
        std::string("1.2.3.4\0", 8), std::string(200, '1')}) {
    EXPECT_FALSE(parse_ip_address(text)) << text;
  }
}

}  // namespace
}  // namespace salvage
