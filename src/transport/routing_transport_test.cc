// Goal: each endpoint goes to the transport of its kind, and to no other.

#include "transport/routing_transport.h"

#include <gtest/gtest.h>

#include "transport/memory_transport.h"

namespace salvage::transport {
namespace {

const char* const kTlsText = "tls:192.0.2.1:7420";

TEST(RoutingTransport, endpoints_of_other_machines_go_to_tls_and_the_rest_to_local) {
  const auto local = make_memory_transport();
  const auto tls = make_memory_transport();
  RoutingTransport routing(*local, tls.get());
  for (const char* text : {"unix:/x", "tcp:127.0.0.1:1", kTlsText, "tls:[::1]:7421"}) {
    const Endpoint endpoint = *parse_endpoint(text);
    const auto listener = routing.listen(endpoint);
    ASSERT_TRUE(listener) << text;
    EXPECT_TRUE(routing.connect((*listener)->endpoint(), kNoDeadline)) << text;
    EXPECT_EQ(local->connect((*listener)->endpoint(), kNoDeadline).has_value(),
              !is_tls(endpoint.kind))
        << text;
    EXPECT_EQ(tls->connect((*listener)->endpoint(), kNoDeadline).has_value(), is_tls(endpoint.kind))
        << text;
  }
}

TEST(RoutingTransport, without_tls_other_machines_are_refused_by_name) {
  const auto local = make_memory_transport();
  RoutingTransport routing(*local, nullptr);
  const auto connected = routing.connect(*parse_endpoint(kTlsText), kNoDeadline);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(connected.error().message().find(kTlsText), std::string::npos);
}

}  // namespace
}  // namespace salvage::transport
