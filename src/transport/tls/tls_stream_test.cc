// Goal: who pins the node's key gets a stream to it; whoever else comes costs only himself. Method:
// OpenSSL's own client and raw sockets against a real listener on loopback.

#include "transport/tls/tls_stream.h"

#include <array>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "identity/openssl.h"
#include "transport/tls/tls_test_cluster.h"

namespace salvage::transport {
namespace {

using testing::HasSubstr;

class Stream : public testing::Test {
 protected:
  Endpoint endpoint() const {
    Endpoint here = loopback();
    here.port = listener->port();
    return here;
  }
  std::unique_ptr<ByteStream> accepted() { return std::move(*listener->accept(soon())); }

  const identity::NodeIdentity coordinator = TestCluster().coordinator();
  const std::unique_ptr<StreamListener> listener = std::move(*listen_for_streams(coordinator, 0));
};

std::string read_some(ByteStream& stream) {
  std::array<char, 100> buffer{};
  const auto got = stream.read(buffer, soon());
  return got ? std::string(buffer.data(), *got) : "failed: " + got.error().message();
}

TEST_F(Stream, a_client_without_certificate_is_shown_the_nodes_key_and_hears_all) {
  RawTls client(endpoint(), nullptr, nullptr);
  const auto stream = accepted();
  std::string heard;
  std::string ended = "not yet";
  const std::string large(3'000'000, 'x');
  std::thread server([&] {
    heard = read_some(*stream);
    EXPECT_TRUE(stream->write(large, soon()));
    ended = read_some(*stream);
  });
  EXPECT_TRUE(client.handshake());
  const identity::CertificateHandle shown(SSL_get1_peer_certificate(client.ssl()));
  ASSERT_NE(shown, nullptr);
  EXPECT_EQ(*identity::key_digest(**identity::certified_key(*shown)), coordinator.id.value);
  EXPECT_EQ(SSL_write(client.ssl(), "hello", 5), 5);
  std::vector<std::byte> got(large.size());
  EXPECT_TRUE(client.read(got));
  SSL_shutdown(client.ssl());
  server.join();
  EXPECT_EQ(heard, "hello");
  EXPECT_EQ(ended, "");
  EXPECT_EQ(static_cast<char>(got.back()), 'x');
}

TEST_F(Stream, tls_1_2_and_plain_text_are_called_what_they_are) {
  RawTls old(endpoint(), nullptr,
             [](SSL_CTX* context) { SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION); });
  const auto first = accepted();
  std::string said;
  std::thread server([&] { said = read_some(*first); });
  EXPECT_FALSE(old.handshake());
  server.join();
  EXPECT_THAT(said, HasSubstr("TLS 1.3"));

  const RawPeer plain(endpoint());
  plain.write("GET / HTTP/1.1\r\n\r\n");
  const auto second = accepted();
  EXPECT_THAT(read_some(*second), HasSubstr("does not speak TLS"));
}

TEST_F(Stream, who_says_nothing_ends_with_the_deadline_and_a_shutdown_at_once) {
  const RawPeer silent(endpoint());
  const auto first = accepted();
  std::array<char, 10> buffer{};
  const auto late = first->read(buffer, in_ms(20));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), ErrorCode::kDeadlineExceeded);

  const RawPeer other(endpoint());
  const auto second = accepted();
  std::string said;
  std::thread server([&] { said = read_some(*second); });
  second->shutdown();
  server.join();
  EXPECT_THAT(said, HasSubstr("failed"));
}

TEST_F(Stream, a_listener_that_is_shut_down_stops_accepting) {
  std::thread waiting([&] { EXPECT_FALSE(listener->accept(soon())); });
  listener->shutdown();
  waiting.join();
}

TEST_F(Stream, a_port_in_use_is_said) {
  const auto again = listen_for_streams(coordinator, listener->port());
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message(), HasSubstr(std::to_string(listener->port())));
}

}  // namespace
}  // namespace salvage::transport
