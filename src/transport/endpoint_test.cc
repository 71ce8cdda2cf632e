// Goal: only well-formed endpoints get through, plaintext ones of this machine only, and every
// error quotes the item.

#include "transport/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::transport {
namespace {

using testing::HasSubstr;

TEST(Endpoint, every_form_reads_and_prints_the_same) {
  const std::string node = "/" + std::string(32, 'a') + std::string(32, '0');
  for (const std::string& text :
       {std::string("unix:/run/salvage/x.sock"), std::string("tcp:127.0.0.1:7001"),
        std::string("tcp:127.3.2.1:0"), std::string("tcp:[::1]:65535"),
        std::string("tls:192.168.1.20:7420"), std::string("tls:0.0.0.0:0"),
        std::string("tls:[::]:7420"), std::string("tls:[fe80::2%eth0]:7420"),
        std::string("tls:[fe80::2%3]:7420") + node, "tls:10.0.0.1:7420" + node}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint) << endpoint.error().message();
    EXPECT_EQ(to_string(*endpoint), text);
    EXPECT_EQ(is_tls(endpoint->kind), text.starts_with("tls:"));
  }
}

TEST(Endpoint, a_node_and_an_interface_are_taken_apart_from_the_address) {
  const std::string node(64, 'b');
  const auto endpoint = parse_endpoint("tls:[FE80:0::2%wlp3s0]:7420/" + node);
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(endpoint->kind, EndpointKind::kTls6);
  EXPECT_EQ(endpoint->address, "fe80::2%wlp3s0");
  EXPECT_EQ(endpoint->port, 7420);
  EXPECT_EQ(endpoint->node.value, node);
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
                                  std::string("tls:"),
                                  std::string("tls:192.168.1.2"),
                                  std::string("tls:myhost:7420"),
                                  std::string("tls:fe80::1:7420"),
                                  std::string("tls:192.168.1.2%eth0:7420"),
                                  std::string("tls:[192.168.1.2]:7420"),
                                  std::string("tls:[fe80::1%]:7420"),
                                  std::string("tls:[fe80::1%eth0%1]:7420"),
                                  std::string("tls:[fe80::1%a-name-too-long-]:7420"),
                                  std::string("tls:10.0.0.1:7420/"),
                                  "tls:10.0.0.1:7420/" + std::string(63, 'a'),
                                  "tls:10.0.0.1:7420/" + std::string(64, 'A'),
                                  "tls:10.0.0.1:7420/" + std::string(64, 'a') + "/",
                                  "tcp:127.0.0.1:80/" + std::string(64, 'a'),
                                  std::string("tcp:[::1%lo]:80"),
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
