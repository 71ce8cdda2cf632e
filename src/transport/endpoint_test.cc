// Goal: only well-formed endpoints of this machine get through, and every error quotes the item.

#include "transport/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::transport {
namespace {

using testing::HasSubstr;

TEST(Endpoint, the_three_forms_read_and_print_the_same) {
  for (const char* text :
       {"unix:/run/salvage/x.sock", "tcp:127.0.0.1:7001", "tcp:127.3.2.1:0", "tcp:[::1]:65535"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint) << endpoint.error().message();
    EXPECT_EQ(to_string(*endpoint), text);
  }
}

TEST(Endpoint, what_is_no_endpoint_is_quoted_in_the_error) {
  const std::string long_path = "unix:/" + std::string(107, 'x');
  for (const std::string& text : {std::string(),
                                  std::string("unix:"),
                                  std::string("unix:x.sock"),
                                  long_path,
                                  std::string("unix:/a b"),
                                  std::string("unix:/a\n"),
                                  std::string("tcp:"),
                                  std::string("tcp:127.0.0.1"),
                                  std::string("tcp:127.0.0.1:"),
                                  std::string("tcp::7001"),
                                  std::string("tcp:[]:7001"),
                                  std::string("tcp:[::1]"),
                                  std::string("tcp:[::1]7001"),
                                  std::string("tcp:[::1:7001"),
                                  std::string("tcp:127.0.0.1:65536"),
                                  std::string("tcp:127.0.0.1:-1"),
                                  std::string("tcp:127.0.0.1:80x"),
                                  std::string("tcp:127.0.0.1:+80"),
                                  std::string("tcp:127.0.0.1:80,"),
                                  std::string(" tcp:127.0.0.1:80"),
                                  std::string("tcp:127.0.0.1:80 "),
                                  std::string("tcp:localhost:80"),
                                  std::string("tcp:127.1:80"),
                                  std::string("tcp:::1:80"),
                                  std::string("TCP:127.0.0.1:80"),
                                  std::string("http://127.0.0.1:80"),
                                  std::string("127.0.0.1:80"),
                                  std::string("unix:/a\0b", 9)}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code(), ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(endpoint.error().message(), HasSubstr("'" + text + "'"));
  }
}

TEST(Endpoint, other_machines_and_all_interfaces_are_refused) {
  for (const char* text : {"tcp:0.0.0.0:7001", "tcp:192.168.1.2:7001", "tcp:[::]:7001",
                           "tcp:[fe80::1]:7001", "tcp:[::ffff:127.0.0.1]:7001"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code(), ErrorCode::kUnsupported) << text;
    EXPECT_THAT(endpoint.error().message(), HasSubstr(text));
  }
}

TEST(EndpointList, holds_at_least_one_and_no_empty_item) {
  const auto list = parse_endpoints("unix:/a,tcp:127.0.0.1:1");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->size(), 2U);
  for (const char* text :
       {"", ",", "unix:/a,", ",unix:/a", "unix:/a,,unix:/b", "unix:/a, unix:/b"}) {
    EXPECT_FALSE(parse_endpoints(text)) << text;
  }
}

}  // namespace
}  // namespace salvage::transport
