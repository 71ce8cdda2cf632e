#include "transport/tls/tls_stream.h"

#include <algorithm>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "identity/openssl.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/socket_address.h"
#include "transport/tls/socket_bio.h"
#include "transport/tls/ssl_step.h"

namespace salvage::transport {
namespace {

using ContextHandle = std::unique_ptr<SSL_CTX, identity::OpensslFree<&SSL_CTX_free>>;

constexpr std::size_t kCallBytesMax = std::size_t{1} << 20;  // OpenSSL counts in int

Result<ContextHandle> make_context(const identity::NodeIdentity& identity) {
  ASSIGN_OR_RETURN(const identity::KeyHandle key, identity::private_key_from_pem(identity.key_pem));
  ASSIGN_OR_RETURN(const identity::CertificateHandle certificate,
                   identity::certificate_from_pem(identity.certificate_pem));
  ContextHandle context(SSL_CTX_new(TLS_server_method()));
  const bool ready = context != nullptr &&
                     SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                     SSL_CTX_set_num_tickets(context.get(), 0) == 1 &&
                     SSL_CTX_set_max_early_data(context.get(), 0) == 1 &&
                     SSL_CTX_use_certificate(context.get(), certificate.get()) == 1 &&
                     SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 &&
                     SSL_CTX_check_private_key(context.get()) == 1;
  if (!ready) return fail(identity::openssl_error(ErrorCode::kInternal, "prepare TLS 1.3"));
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  return context;
}

class TlsStream final : public ByteStream {
 public:
  static Result<std::unique_ptr<ByteStream>> make(SSL_CTX& context, Descriptor descriptor) {
    set_keep_alive(descriptor.get());
    const auto peer = peer_endpoint(descriptor.get());
    std::unique_ptr<TlsStream> stream(
        new TlsStream(std::move(descriptor), peer ? to_string(*peer) : "a peer that has gone"));
    ASSIGN_OR_RETURN(BioHandle bio, make_socket_bio(stream->socket_));
    stream->ssl_.reset(SSL_new(&context));
    if (stream->ssl_ == nullptr) {
      return fail(identity::openssl_error(ErrorCode::kResourceExhausted, "memory for a stream"));
    }
    BIO* socket = bio.release();
    SSL_set_bio(stream->ssl_.get(), socket, socket);  // takes it over
    SSL_set_accept_state(stream->ssl_.get());
    return std::unique_ptr<ByteStream>(std::move(stream));
  }

  // Says that this was all, so that a client knows it from a cut. Whether it arrives is not waited
  // for.
  ~TlsStream() override {
    ERR_clear_error();
    if (!failed_ && SSL_is_init_finished(ssl_.get()) != 0) (void)SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }

  Result<std::size_t> read(std::span<char> into, TimePoint deadline) override {
    std::size_t got = 0;
    const auto call = [&] {
      const int most = static_cast<int>(std::min(into.size(), kCallBytesMax));
      const int count = SSL_read(ssl_.get(), into.data(), most);
      got = count > 0 ? static_cast<std::size_t>(count) : 0;
      return count;
    };
    const Result<void> done = drive(call, deadline);
    if (done) return got;
    const bool in_order = (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
    if (in_order) return std::size_t{0};
    return fail(done.error());
  }

  Result<void> write(std::span<const char> bytes, TimePoint deadline) override {
    while (!bytes.empty()) {
      const std::span<const char> part = bytes.first(std::min(bytes.size(), kCallBytesMax));
      RETURN_IF_ERROR(
          drive([&] { return SSL_write(ssl_.get(), part.data(), static_cast<int>(part.size())); },
                deadline));
      bytes = bytes.subspan(part.size());
    }
    return {};
  }

  void shutdown() override { ::shutdown(descriptor_.get(), SHUT_RDWR); }
  bool gone() const override { return peer_gone(descriptor_.get()); }
  const std::string& peer() const override { return peer_; }

 private:
  TlsStream(Descriptor descriptor, std::string peer)
      : descriptor_(std::move(descriptor)), peer_(std::move(peer)) {
    socket_.fd = descriptor_.get();
  }

  // Repeats a call of OpenSSL's until it is done, waiting for the socket in between.
  template <typename Call>
  Result<void> drive(const Call& call, TimePoint deadline) {
    for (;;) {
      ERR_clear_error();
      SslStep step = next_step(*ssl_, call(), socket_);
      if (step.done) return {};
      if (step.error) {
        failed_ = true;
        return fail(std::move(*step.error).within(peer_));
      }
      Result<void> waited = wait_for(descriptor_.get(), -1, step.wait_events, deadline);
      failed_ = failed_ || !waited;
      RETURN_IF_ERROR(waited);
    }
  }

  const Descriptor descriptor_;
  const std::string peer_;
  SocketBioState socket_;  // outlives ssl_
  SslHandle ssl_;
  bool failed_ = false;
};

class TlsStreamListener final : public StreamListener {
 public:
  TlsStreamListener(std::unique_ptr<Acceptor> acceptor, ContextHandle context)
      : acceptor_(std::move(acceptor)), context_(std::move(context)) {}

  Result<std::unique_ptr<ByteStream>> accept(TimePoint deadline) override {
    ASSIGN_OR_RETURN(Descriptor descriptor, acceptor_->accept(deadline));
    return TlsStream::make(*context_, std::move(descriptor));
  }
  void shutdown() override { acceptor_->shutdown(); }
  std::uint16_t port() const override { return acceptor_->endpoint().port; }

 private:
  const std::unique_ptr<Acceptor> acceptor_;
  const ContextHandle context_;
};

}  // namespace

Result<std::unique_ptr<StreamListener>> listen_for_streams(const identity::NodeIdentity& identity,
                                                           std::uint16_t port) {
  ASSIGN_OR_RETURN(ContextHandle context, make_context(identity));
  auto acceptor = Acceptor::listen({.kind = EndpointKind::kTls6, .address = "::", .port = port});
  if (!acceptor) {  // no IPv6 here
    acceptor = Acceptor::listen({.kind = EndpointKind::kTls4, .address = "0.0.0.0", .port = port});
  }
  if (!acceptor) return fail(acceptor.error());
  return std::unique_ptr<StreamListener>(
      std::make_unique<TlsStreamListener>(std::move(*acceptor), std::move(context)));
}

}  // namespace salvage::transport
