// Goal: sockets keep the contract, and hostile or unlucky neighbours get nowhere. Method: real Unix
// sockets in a folder of their own and loopback with ports that the system chooses; raw sockets
// where a peer must misbehave.

#include "transport/tcp/local_transport.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "transport/transport_contract.h"

namespace salvage::transport {
namespace {

// One folder a test program, removed at its end.
const std::filesystem::path& folder() {
  struct Folder {
    Folder() {
      std::string name = (std::filesystem::temp_directory_path() / "salvage-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) std::abort();
      path = name;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
  };
  static const Folder made;
  return made.path;
}

Endpoint unix_endpoint() {
  static int count = 0;
  return *parse_endpoint("unix:" + (folder() / std::to_string(++count)).string());
}

INSTANTIATE_TEST_SUITE_P(Sockets, TransportContract,
                         testing::Values(TransportCase{"unix", make_local_transport, unix_endpoint},
                                         TransportCase{
                                             "tcp4", make_local_transport,
                                             [] { return *parse_endpoint("tcp:127.0.0.1:0"); }}),
                         [](const auto& one) { return one.param.name; });

TEST(UnixSocket, its_file_is_for_the_user_alone_and_goes_with_the_listener) {
  const auto transport = make_local_transport();
  const Endpoint endpoint = unix_endpoint();
  const mode_t old = ::umask(0);
  auto listener = transport->listen(endpoint);
  ::umask(old);
  ASSERT_TRUE(listener) << listener.error().message();
  struct stat status {};
  ASSERT_EQ(::stat(endpoint.path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  listener->reset();
  EXPECT_FALSE(std::filesystem::exists(endpoint.path));
}

TEST(UnixSocket, a_file_left_by_a_dead_process_is_replaced_a_living_one_is_not) {
  const auto transport = make_local_transport();
  const Endpoint endpoint = unix_endpoint();
  {
    const int stale = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, endpoint.path.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(stale, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::close(stale);
  }
  const auto listener = transport->listen(endpoint);
  ASSERT_TRUE(listener) << listener.error().message();
  const auto second = transport->listen(endpoint);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message(), testing::HasSubstr("another process listens"));
}

TEST(UnixSocket, a_file_that_is_no_socket_is_never_removed) {
  const auto transport = make_local_transport();
  const Endpoint endpoint = unix_endpoint();
  std::ofstream(endpoint.path) << "precious";
  EXPECT_FALSE(transport->listen(endpoint));
  EXPECT_TRUE(std::filesystem::exists(endpoint.path));
}

TEST(LocalTransport, an_endpoint_made_by_hand_is_checked_like_a_parsed_one) {
  const auto transport = make_local_transport();
  Endpoint endpoint;
  endpoint.kind = EndpointKind::kTcp4;
  endpoint.address = "0.0.0.0";
  EXPECT_EQ(transport->listen(endpoint).error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(transport->connect(endpoint, kNoDeadline).error().code(), ErrorCode::kUnsupported);
  endpoint.kind = EndpointKind::kUnix;
  endpoint.path = "/" + std::string(200, 'x');
  EXPECT_EQ(transport->listen(endpoint).error().code(), ErrorCode::kInvalidArgument);
}

TEST(LocalTransport, peer_traffic_does_not_look_at_proxies) {
  ::setenv("http_proxy", "127.0.0.1:9", 1);
  ::setenv("all_proxy", "127.0.0.1:9", 1);
  const auto transport = make_local_transport();
  const auto listener = transport->listen(*parse_endpoint("tcp:127.0.0.1:0"));
  ASSERT_TRUE(listener);
  EXPECT_TRUE(transport->connect((*listener)->endpoint(), kNoDeadline));
}

// A peer that writes raw bytes instead of frames.
class Misbehaving : public testing::Test {
 protected:
  void SetUp() override {
    transport = make_local_transport();
    listener = std::move(*transport->listen(unix_endpoint()));
    raw = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, listener->endpoint().path.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(::connect(raw, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    connection = std::move(*listener->accept());
  }
  void TearDown() override { ::close(raw); }
  void write_raw(std::span<const std::byte> bytes) const {
    ASSERT_EQ(::write(raw, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  ErrorCode outcome() {
    IncomingFrame frame;
    const auto received =
        connection->receive_frame(frame, SteadyClock().now() + std::chrono::milliseconds(30));
    EXPECT_FALSE(received);
    return received ? ErrorCode::kInternal : received.error().code();
  }
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> connection;
  int raw = -1;
};

TEST_F(Misbehaving, a_peer_that_speaks_http_is_corrupt) {
  const char request[] = "GET / HTTP/1.1\r\nHost: salvage\r\nUser-Agent: x\r\n\r\n\r\n\r\n";
  write_raw(std::as_bytes(std::span(request)));
  EXPECT_EQ(outcome(), ErrorCode::kCorrupt);
}

TEST_F(Misbehaving, a_peer_that_stalls_in_a_header_is_gone_not_late) {
  const auto header = wire::encode_header({});
  write_raw(std::span(header).first(20));
  EXPECT_EQ(outcome(), ErrorCode::kUnavailable);
}

TEST_F(Misbehaving, a_peer_that_leaves_in_a_body_is_gone) {
  wire::FrameHeader header;
  header.body_bytes = 100;
  write_raw(wire::encode_header(header));
  ::shutdown(raw, SHUT_WR);
  EXPECT_EQ(outcome(), ErrorCode::kUnavailable);
}

TEST_F(Misbehaving, an_absurd_length_is_refused_before_room_is_made) {
  wire::FrameHeader header;
  header.type = wire::FrameType::kMicroBatch;
  header.body_bytes = 0xFFFFFFFF;
  write_raw(wire::encode_header(header));
  EXPECT_EQ(outcome(), ErrorCode::kCorrupt);
}

TEST_F(Misbehaving, sending_to_a_peer_that_has_gone_is_an_error_not_a_signal) {
  ::shutdown(raw, SHUT_RDWR);
  Result<void> sent;
  for (int i = 0; i < 10 && sent; ++i) sent = connection->send_frame({});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace salvage::transport
