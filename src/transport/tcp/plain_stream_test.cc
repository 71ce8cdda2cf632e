// Goal: a client on any address of this machine gets a stream, in both directions and until it
// goes. Method: a raw socket against a real listener on loopback.

#include "transport/tcp/plain_stream.h"

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "transport/tcp/socket.h"

namespace salvage::transport {
namespace {

TimePoint soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(8);
}

Descriptor dial(const std::string& address, std::uint16_t port) {
  Endpoint endpoint;
  endpoint.kind =
      address.find(':') == std::string::npos ? EndpointKind::kTcp4 : EndpointKind::kTcp6;
  endpoint.address = address;
  endpoint.port = port;
  auto made = connect_to(endpoint, soon());
  EXPECT_TRUE(made) << made.error().message();
  return made ? std::move(*made) : Descriptor();
}

std::string read_some(ByteStream& stream, TimePoint deadline) {
  std::array<char, 100> buffer{};
  const auto got = stream.read(buffer, deadline);
  return got ? std::string(buffer.data(), *got) : "failed";
}

TEST(PlainStream, carries_bytes_both_ways_and_knows_when_the_client_has_gone) {
  const auto listener = *listen_plainly("127.0.0.1", 0);
  auto client = std::make_optional(dial("127.0.0.1", listener->port()));
  const auto stream = *listener->accept(soon());
  EXPECT_FALSE(stream->gone());
  EXPECT_EQ(::send(client->get(), "hello", 5, 0), 5);
  EXPECT_EQ(read_some(*stream, soon()), "hello");
  EXPECT_TRUE(stream->write(std::string_view("answer"), soon()));
  std::array<std::byte, 6> got{};
  EXPECT_TRUE(receive_all(client->get(), got, soon()).result);
  client.reset();
  const TimePoint until = soon();
  while (!stream->gone() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(stream->gone());
  EXPECT_EQ(read_some(*stream, soon()), "");
}

TEST(PlainStream, waits_no_longer_than_it_was_told) {
  const auto listener = *listen_plainly("127.0.0.1", 0);
  const Descriptor client = dial("127.0.0.1", listener->port());
  const auto stream = *listener->accept(soon());
  std::array<char, 10> buffer{};
  const auto read =
      stream->read(buffer, std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), ErrorCode::kDeadlineExceeded);
  // A client that reads nothing: the system's buffers fill up.
  const std::string much(64 << 20, 'x');
  EXPECT_FALSE(
      stream->write(much, std::chrono::steady_clock::now() + std::chrono::milliseconds(200)));
}

TEST(PlainStream, one_listener_takes_both_kinds_of_address) {
  const auto listener = listen_plainly("::", 0);
  if (!listener) {  // a system without IPv6
    EXPECT_THAT(listener.error().message(), testing::HasSubstr("::"));
    return;
  }
  const Descriptor four = dial("127.0.0.1", (*listener)->port());
  const Descriptor six = dial("::1", (*listener)->port());
  EXPECT_TRUE((*listener)->accept(soon()));
  EXPECT_TRUE((*listener)->accept(soon()));
}

TEST(PlainStream, a_port_in_use_and_a_foreign_address_are_refused) {
  const auto listener = *listen_plainly("127.0.0.1", 0);
  const auto again = listen_plainly("127.0.0.1", listener->port());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(listen_plainly("198.18.77.77", 0));
  EXPECT_FALSE(listen_plainly("no address", 0));
}

}  // namespace
}  // namespace salvage::transport
