// Goal: the in-memory transport keeps the contract, and its faults happen when they were ordered.

#include "transport/memory_transport.h"

#include <gtest/gtest.h>

#include "transport/transport_contract.h"

namespace salvage::transport {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, TransportContract,
                         testing::Values(TransportCase{
                             "memory", [] { return make_memory_transport(); },
                             [] { return *parse_endpoint("tcp:127.0.0.1:0"); }}),
                         [](const auto& one) { return one.param.name; });

struct Link {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Connection> near;
  std::unique_ptr<Connection> far;
};

Link link_with(MemoryFaults faults) {
  Link link;
  link.transport = make_memory_transport(faults);
  auto listener = link.transport->listen(*parse_endpoint("unix:/x"));
  link.near = std::move(*link.transport->connect((*listener)->endpoint(), kNoDeadline));
  link.far = std::move(*(*listener)->accept());
  return link;
}

TEST(MemoryFaults, a_link_is_cut_after_so_many_frames) {
  MemoryFaults faults;
  faults.cut_after_frames = 2;
  const Link link = link_with(faults);
  EXPECT_TRUE(link.near->send_frame({}));
  EXPECT_TRUE(link.near->send_frame({}));
  EXPECT_EQ(link.near->send_frame({}).error().code(), ErrorCode::kUnavailable);
  IncomingFrame frame;
  EXPECT_TRUE(link.far->receive_frame(frame));
  EXPECT_TRUE(link.far->receive_frame(frame));
  EXPECT_EQ(link.far->receive_frame(frame).error().code(), ErrorCode::kUnavailable);
}

TEST(MemoryFaults, a_damaged_frame_is_found_by_its_checksum) {
  MemoryFaults faults;
  faults.corrupt_frame = 2;
  const Link link = link_with(faults);
  const std::vector<std::byte> body(10);
  OutgoingFrame frame;
  frame.body = body;
  ASSERT_TRUE(link.near->send_frame(frame));
  ASSERT_TRUE(link.near->send_frame(frame));
  IncomingFrame incoming;
  EXPECT_TRUE(link.far->receive_frame(incoming));
  EXPECT_EQ(link.far->receive_frame(incoming).error().code(), ErrorCode::kCorrupt);
}

TEST(MemoryTransport, one_name_has_one_listener_at_a_time) {
  const auto transport = make_memory_transport();
  const Endpoint endpoint = *parse_endpoint("unix:/x");
  auto first = transport->listen(endpoint);
  ASSERT_TRUE(first);
  EXPECT_FALSE(transport->listen(endpoint));
  first->reset();
  EXPECT_TRUE(transport->listen(endpoint));
}

}  // namespace
}  // namespace salvage::transport
