// Goal: what isn't TLS 1.3 from a member costs itself its connection and nobody else anything.
// Method: raw sockets and OpenSSL's own client with other settings against a real listener.

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "transport/tcp/acceptor.h"
#include "transport/tcp/local_transport.h"
#include "transport/tls/tls_test_cluster.h"

namespace salvage::transport {
namespace {

using testing::HasSubstr;

class Attack : public testing::Test {
 protected:
  explicit Attack(TlsOptions options = {}) : there(transport_of(coordinator, options)) {}

  // What the listening side says of whoever has connected last.
  Error verdict(TimePoint deadline = soon()) {
    auto accepted = listener->accept(soon());
    EXPECT_TRUE(accepted);
    if (!accepted) return accepted.error();
    IncomingFrame frame;
    const auto received = (*accepted)->receive_frame(frame, deadline);
    EXPECT_FALSE(received);
    EXPECT_EQ((*accepted)->identity(), nullptr);
    return received ? Error(ErrorCode::kInternal, "let in") : received.error();
  }

  const TestCluster cluster;
  const identity::NodeIdentity coordinator = cluster.coordinator();
  const identity::NodeIdentity member = cluster.member();
  const std::unique_ptr<SecureTransport> there;
  const std::unique_ptr<Listener> listener = listening(*there);
};

TEST_F(Attack, plain_text_is_called_what_it_is) {
  const RawPeer http(listener->endpoint());
  http.write("GET / HTTP/1.1\r\nHost: salvage\r\n\r\n");
  const Error said = verdict();
  EXPECT_EQ(said.code(), ErrorCode::kUnsupported) << said.message();
  EXPECT_THAT(said.message(), HasSubstr("does not speak TLS"));
  EXPECT_TRUE(http.closed_by_peer());

  const RawPeer frames(listener->endpoint());
  const auto header = wire::encode_header({});
  frames.write({reinterpret_cast<const char*>(header.data()), header.size()});
  EXPECT_EQ(verdict().code(), ErrorCode::kUnsupported);
}

TEST_F(Attack, a_listener_that_speaks_plain_text_is_called_what_it_is) {
  const auto plain = make_local_transport();
  const auto door = std::move(*plain->listen(*parse_endpoint("tcp:127.0.0.1:0")));
  Endpoint endpoint = door->endpoint();
  endpoint.kind = EndpointKind::kTls4;
  Error said(ErrorCode::kInternal, "connected");
  std::thread connecting([&] {
    const auto connected = there->connect(endpoint, soon());
    if (!connected) said = connected.error();
  });
  const auto accepted = std::move(*door->accept(soon()));
  EXPECT_TRUE(accepted->send_frame({}, soon()));
  connecting.join();
  EXPECT_EQ(said.code(), ErrorCode::kUnsupported) << said.message();
  EXPECT_THAT(said.message(), HasSubstr(std::to_string(endpoint.port)));
}

TEST_F(Attack, noise_of_every_beginning_is_refused) {
  for (int first = 0; first < 256; ++first) {
    const RawPeer peer(listener->endpoint());
    std::string noise(600, '\0');
    for (std::size_t i = 0; i < noise.size(); ++i) {
      noise[i] = static_cast<char>(static_cast<std::size_t>(first) * (i + 1) + i * i);
    }
    noise[0] = static_cast<char>(first);
    peer.write(noise);
    const Error said = verdict(in_ms(20));
    // A few beginnings announce a record that is longer than the noise: those are waited for.
    EXPECT_NE(said.code(), ErrorCode::kInternal) << first << ": " << said.message();
  }
}

TEST_F(Attack, a_handshake_cut_off_anywhere_ends_the_connection) {
  const std::string hello = client_hello();
  ASSERT_GT(hello.size(), 100U);
  for (std::size_t length = 0; length <= hello.size(); length += length < 16 ? 1 : 29) {
    {
      const RawPeer peer(listener->endpoint());
      peer.write(hello.substr(0, length));
    }
    const Error said = verdict();
    EXPECT_EQ(said.code(), ErrorCode::kUnavailable) << length << ": " << said.message();
  }
}

TEST_F(Attack, a_damaged_hello_is_refused) {
  const std::string hello = client_hello();
  for (std::size_t at = 0; at < hello.size(); at += 7) {
    std::string damaged = hello;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x5A);
    const RawPeer peer(listener->endpoint());
    peer.write(damaged);
    const Error said = verdict(in_ms(10));
    // Where random bytes were changed it is as good as before and goes no further.
    EXPECT_NE(said.code(), ErrorCode::kInternal) << at << ": " << said.message();
  }
}

TEST_F(Attack, tls_1_2_is_refused) {
  RawTls old(listener->endpoint(), &member,
             [](SSL_CTX* context) { SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION); });
  Error said(ErrorCode::kInternal, "");
  std::thread server([&] { said = verdict(); });
  EXPECT_FALSE(old.handshake());
  server.join();
  EXPECT_EQ(said.code(), ErrorCode::kUnsupported) << said.message();
  EXPECT_THAT(said.message(), HasSubstr("TLS 1.3"));
}

TEST_F(Attack, who_shows_no_certificate_is_refused) {
  RawTls nameless(listener->endpoint(), nullptr, nullptr);
  Error said(ErrorCode::kInternal, "");
  std::thread server([&] { said = verdict(); });
  EXPECT_TRUE(nameless.handshake());  // The client's part is over before the server has looked.
  server.join();
  EXPECT_EQ(said.code(), ErrorCode::kUnauthenticated) << said.message();
  EXPECT_THAT(said.message(), HasSubstr("without a certificate"));
}

// Somebody in between shows a certificate of his own authority, and beside it ours, which is no
// secret: whoever looks for the fingerprint anywhere in the chain would send him the invite's
// secret.
TEST_F(Attack, the_right_authority_beside_a_foreign_certificate_is_not_enough) {
  const TestCluster theirs;
  const auto between = theirs.coordinator();
  const auto door = std::move(*Acceptor::listen(loopback()));
  std::string heard;
  std::thread server([&] {
    const Descriptor accepted = std::move(*door->accept(soon()));
    heard = serve_once(accepted.get(), between, cluster.authority().certificate_pem);
  });
  const auto joiner = transport_of(key_only());
  const auto joined =
      joiner->connect_for_join(door->endpoint(), cluster.authority().cluster_id, soon());
  server.join();
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), ErrorCode::kUnauthenticated) << joined.error().message();
  EXPECT_EQ(heard, "");
}

TEST_F(Attack, there_is_no_ticket_and_no_session_to_resume) {
  RawTls client(listener->endpoint(), &member, nullptr);
  std::thread server([&] {
    const auto accepted = std::move(*listener->accept(soon()));
    EXPECT_TRUE(accepted->send_frame({}, soon()));
  });
  EXPECT_TRUE(client.handshake());
  std::vector<std::byte> frame(wire::kFrameHeaderBytes);
  EXPECT_TRUE(client.read(frame));  // A ticket would have come before it.
  server.join();
  EXPECT_EQ(SSL_SESSION_is_resumable(SSL_get0_session(client.ssl())), 0);
  EXPECT_EQ(SSL_SESSION_get_max_early_data(SSL_get0_session(client.ssl())), 0U);
}

// Drives a handshake and says which cipher both agreed on.
std::string cipher_between(Listener& listener, const identity::NodeIdentity& member,
                           RawTls::Settings settings) {
  RawTls client(listener.endpoint(), &member, settings);
  std::thread server([&] {
    const auto accepted = std::move(*listener.accept(soon()));
    EXPECT_TRUE(accepted->send_frame({}, soon()));
  });
  EXPECT_TRUE(client.handshake());
  server.join();
  return SSL_get_cipher_name(client.ssl());
}

void aes_first(SSL_CTX* context) {
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256");
}
void chacha_first(SSL_CTX* context) {
  SSL_CTX_set_ciphersuites(context, "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256");
}

TEST_F(Attack, aes_is_used_between_fast_machines_and_chacha_if_one_is_slow) {
  TlsOptions options;
  options.fast_aes = true;
  const auto fast = transport_of(coordinator, options);
  options.fast_aes = false;
  const auto slow = transport_of(coordinator, options);
  const auto fast_door = listening(*fast);
  const auto slow_door = listening(*slow);
  EXPECT_EQ(cipher_between(*fast_door, member, aes_first), "TLS_AES_128_GCM_SHA256");
  EXPECT_EQ(cipher_between(*fast_door, member, chacha_first), "TLS_CHACHA20_POLY1305_SHA256");
  EXPECT_EQ(cipher_between(*slow_door, member, aes_first), "TLS_CHACHA20_POLY1305_SHA256");
  EXPECT_EQ(cipher_between(*slow_door, member, chacha_first), "TLS_CHACHA20_POLY1305_SHA256");
}

TEST_F(Attack, keys_are_renewed_after_the_stated_number_of_bytes) {
  TlsOptions options;
  options.rekey_bytes = 100'000;
  const auto transport = transport_of(coordinator, options);
  const auto door = listening(*transport);
  RawTls client(door->endpoint(), &member, nullptr);
  const std::vector<std::byte> data(1'000'000);
  std::thread server([&] {
    const auto accepted = std::move(*door->accept(soon()));
    OutgoingFrame frame;
    frame.type = wire::FrameType::kMicroBatch;
    frame.data = data;
    EXPECT_TRUE(accepted->send_frame(frame, soon()));
  });
  EXPECT_TRUE(client.handshake());
  std::vector<std::byte> got(wire::kFrameHeaderBytes + data.size());
  EXPECT_TRUE(client.read(got));
  server.join();
  // Every seventh record of 16,384 bytes, one million in all.
  EXPECT_EQ(client.key_updates(), 8);
}

TEST_F(Attack, what_is_damaged_after_the_handshake_is_corrupt) {
  RawTls client(listener->endpoint(), &member, nullptr);
  Error said(ErrorCode::kInternal, "");
  std::thread server([&] {
    const auto accepted = std::move(*listener->accept(soon()));
    IncomingFrame frame;
    const auto received = accepted->receive_frame(frame, soon());
    if (!received) said = received.error();
  });
  ASSERT_TRUE(client.handshake());
  // A record of application data that nobody's keys have made.
  const std::string forged = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  ASSERT_EQ(BIO_write(SSL_get_wbio(client.ssl()), forged.data(), static_cast<int>(forged.size())),
            static_cast<int>(forged.size()));
  server.join();
  EXPECT_EQ(said.code(), ErrorCode::kCorrupt) << said.message();
}

struct Impatient : Attack {
  static TlsOptions options() {
    TlsOptions options;
    options.handshake_time_max = std::chrono::milliseconds(100);
    return options;
  }
  Impatient() : Attack(options()) {}
};

TEST_F(Impatient, a_peer_that_dribbles_its_handshake_is_given_up_whatever_the_callers_patience) {
  const std::string hello = client_hello();
  const RawPeer peer(listener->endpoint());
  const auto accepted = std::move(*listener->accept(soon()));
  Result<void> received;
  std::thread server([&] {
    IncomingFrame frame;
    received = accepted->receive_frame(frame);  // no deadline of its own
  });
  for (std::size_t i = 0; i < 20; ++i) peer.write(hello.substr(i, 1));
  server.join();
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(received.error().message(), HasSubstr("in time"));
}

TEST_F(Impatient, a_listener_that_never_answers_keeps_nobody_waiting) {
  // Connected by the kernel, accepted by nobody.
  const auto connected = there->connect(listener->endpoint(), kNoDeadline);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code(), ErrorCode::kUnavailable);
}

// The door above a listener decides how many introduce themselves at once (pipeline/door.h). Here:
// those that wait cost a descriptor each, and neither accept() nor a friend's link notices them.
TEST_F(Attack, a_thousand_idle_and_rude_connections_keep_no_friend_out) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_GE(limit.rlim_cur, 2200U) << "this test needs 2,200 descriptors";

  std::vector<std::unique_ptr<RawPeer>> peers;
  std::vector<std::unique_ptr<Connection>> accepted;
  for (int i = 0; i < 1000; ++i) {
    peers.push_back(std::make_unique<RawPeer>(listener->endpoint()));
    if (i % 2 == 1) peers.back()->write("not a handshake");
    auto connection = listener->accept(soon());
    ASSERT_TRUE(connection) << connection.error().message();
    accepted.push_back(std::move(*connection));
  }
  const auto here = transport_of(member);
  const TlsLink link = link_between(*here, *listener);
  ASSERT_NE(link.far, nullptr);
  IncomingFrame frame;
  for (int i = 0; i < 1000; ++i) {
    const auto received = accepted[static_cast<std::size_t>(i)]->receive_frame(frame, in_ms(0));
    ASSERT_FALSE(received);
    EXPECT_EQ(received.error().code(),
              i % 2 == 1 ? ErrorCode::kUnsupported : ErrorCode::kDeadlineExceeded);
  }
  ASSERT_TRUE(link.near->send_frame({}, soon()));
  EXPECT_TRUE(link.far->receive_frame(frame, soon()));
}

}  // namespace
}  // namespace salvage::transport
