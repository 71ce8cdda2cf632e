#include "transport/tls/tls_test_cluster.h"

#include <array>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "identity/openssl.h"
#include "transport/tcp/socket_address.h"

namespace salvage::transport {
namespace {

void show(SSL_CTX* context, const identity::NodeIdentity& identity) {
  const auto certificate = *identity::certificate_from_pem(identity.certificate_pem);
  const auto key = *identity::private_key_from_pem(identity.key_pem);
  EXPECT_EQ(SSL_CTX_use_certificate(context, certificate.get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key.get()), 1);
}

// OpenSSL's own socket calls raise SIGPIPE when the other side has left.
void block_sigpipe() {
  sigset_t signals{};
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

TimePoint soon() {
  return deadline_after(SteadyClock().now(), std::chrono::seconds(20));
}

TimePoint in_ms(int milliseconds) {
  return SteadyClock().now() + std::chrono::milliseconds(milliseconds);
}

Endpoint loopback() {
  return *parse_endpoint("tls:127.0.0.1:0");
}

identity::NodeIdentity key_only() {
  const identity::NodeKey key = *identity::make_node_key();
  identity::NodeIdentity identity;
  identity.key_pem = key.key_pem;
  identity.id = key.id;
  return identity;
}

identity::NodeIdentity TestCluster::member(identity::NodeRole role) const {
  identity::NodeIdentity identity = key_only();
  const auto public_key = identity::read_node_key(identity.key_pem)->public_key_pem;
  identity.certificate_pem = *identity::issue_certificate(authority_, public_key, role);
  identity.authority_pem = authority_.certificate_pem;
  return identity;
}

std::unique_ptr<SecureTransport> transport_of(const identity::NodeIdentity& identity,
                                              TlsOptions options) {
  options.identity = identity;
  auto made = make_tls_transport(options);
  EXPECT_TRUE(made) << made.error().message();
  return made ? std::move(*made) : nullptr;
}

std::unique_ptr<Listener> listening(SecureTransport& transport) {
  auto listener = transport.listen(loopback());
  EXPECT_TRUE(listener) << listener.error().message();
  return listener ? std::move(*listener) : nullptr;
}

TlsLink link_between(Transport& from, Listener& to) {
  TlsLink link;
  std::thread connecting([&] {
    auto connected = from.connect(to.endpoint(), soon());
    ASSERT_TRUE(connected) << connected.error().message();
    link.near = std::move(*connected);
    EXPECT_TRUE(link.near->send_frame({}, soon()));
  });
  auto accepted = to.accept(soon());
  if (accepted) link.far = std::move(*accepted);
  IncomingFrame frame;
  EXPECT_TRUE(link.far != nullptr && link.far->receive_frame(frame, soon()));
  connecting.join();
  return link;
}

Outcome outcome_between(Transport& from, const Endpoint& endpoint, Listener& to) {
  Outcome outcome;
  std::unique_ptr<Connection> near;
  std::thread connecting([&] {
    auto connected = from.connect(endpoint, soon());
    if (!connected) {
      outcome.near = connected.error();
      return;
    }
    near = std::move(*connected);
    IncomingFrame frame;
    auto done = near->send_frame({}, soon());
    if (done) done = near->receive_frame(frame, soon());
    if (!done) outcome.near = done.error();
  });
  auto accepted = to.accept(soon());
  EXPECT_TRUE(accepted);
  if (accepted) {
    IncomingFrame frame;
    auto done = (*accepted)->receive_frame(frame, soon());
    if (done) done = (*accepted)->send_frame({}, soon());
    if (!done) outcome.far = done.error();
    accepted->reset();
  }
  connecting.join();
  return outcome;
}

RawPeer::RawPeer(const Endpoint& endpoint) {
  fd_ = ::socket(endpoint.kind == EndpointKind::kTls6 ? AF_INET6 : AF_INET,
                 SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = socket_address(endpoint);
  EXPECT_TRUE(address);
  EXPECT_EQ(::connect(fd_, address->get(), address->bytes), 0);
  const timeval patience = {20, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

RawPeer::~RawPeer() {
  if (fd_ >= 0) ::close(fd_);
}

void RawPeer::write(std::string_view bytes) const {
  EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

bool RawPeer::closed_by_peer() const {
  std::array<char, 4096> buffer{};
  for (int reads = 0; reads < 1000; ++reads) {
    const auto got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
    if (got < 0) return false;
  }
  return false;
}

RawTls::RawTls(const Endpoint& endpoint, const identity::NodeIdentity* identity, Settings settings)
    : peer_(endpoint), context_(SSL_CTX_new(TLS_client_method())) {
  block_sigpipe();
  SSL_CTX_set_verify(context_, SSL_VERIFY_NONE, nullptr);
  if (identity != nullptr) show(context_, *identity);
  if (settings != nullptr) settings(context_);
  ssl_ = SSL_new(context_);
  SSL_set_fd(ssl_, peer_.fd());
  SSL_set_connect_state(ssl_);
  // Handshake messages (22) of type 24 are key updates.
  SSL_set_msg_callback(ssl_, [](int write, int /*version*/, int type, const void* bytes,
                                std::size_t count, SSL* /*ssl*/, void* counter) {
    const bool update =
        write == 0 && type == 22 && count > 0 && *static_cast<const unsigned char*>(bytes) == 24;
    if (update) ++*static_cast<int*>(counter);
  });
  SSL_set_msg_callback_arg(ssl_, &key_updates_);
}

RawTls::~RawTls() {
  SSL_free(ssl_);
  SSL_CTX_free(context_);
}

bool RawTls::read(std::span<std::byte> into) {
  while (!into.empty()) {
    std::size_t got = 0;
    if (SSL_read_ex(ssl_, into.data(), into.size(), &got) != 1) return false;
    into = into.subspan(got);
  }
  return true;
}

std::string serve_once(int fd, const identity::NodeIdentity& identity,
                       const std::string& authority_pem) {
  block_sigpipe();
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  show(context, identity);
  const auto authority = *identity::certificate_from_pem(authority_pem);
  EXPECT_EQ(SSL_CTX_add1_chain_cert(context, authority.get()), 1);
  const timeval patience = {20, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, fd);
  std::string heard(1000, '\0');
  const bool accepted = SSL_accept(ssl) == 1;
  const int count = accepted ? SSL_read(ssl, heard.data(), static_cast<int>(heard.size())) : 0;
  heard.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  SSL_free(ssl);
  SSL_CTX_free(context);
  return heard;
}

std::string client_hello() {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* ssl = SSL_new(context);
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, in, out);
  SSL_set_connect_state(ssl);
  SSL_do_handshake(ssl);
  std::string hello(4096, '\0');
  const int count = BIO_read(out, hello.data(), static_cast<int>(hello.size()));
  hello.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  SSL_free(ssl);
  SSL_CTX_free(context);
  return hello;
}

}  // namespace salvage::transport
