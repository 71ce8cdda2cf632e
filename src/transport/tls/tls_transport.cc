#include "transport/tls/tls_transport.h"

#include <utility>

#include "transport/tcp/acceptor.h"
#include "transport/tcp/socket_address.h"
#include "transport/tls/tls_connection.h"

namespace salvage::transport {
namespace {

Result<void> check_tls(const Endpoint& endpoint) {
  if (is_tls(endpoint.kind)) return {};
  return fail(ErrorCode::kUnsupported,
              to_string(endpoint) + ": this transport takes tls: endpoints only");
}

class TlsListener final : public Listener {
 public:
  TlsListener(std::unique_ptr<Acceptor> acceptor, std::shared_ptr<TlsShared> shared, TlsRole role)
      : acceptor_(std::move(acceptor)), shared_(std::move(shared)), role_(std::move(role)) {}

  Result<std::unique_ptr<Connection>> accept(TimePoint deadline) override {
    for (int tries = 0; tries < kAcceptTriesMax; ++tries) {
      ASSIGN_OR_RETURN(Descriptor accepted, acceptor_->accept(deadline));
      const auto peer = peer_endpoint(accepted.get());
      if (!peer) continue;  // It has gone already.
      set_keep_alive(accepted.get());
      return std::make_unique<TlsConnection>(std::move(accepted), to_string(*peer), shared_, role_);
    }
    return fail(ErrorCode::kResourceExhausted, "too many peers vanished while they connected");
  }

  void shutdown() override { acceptor_->shutdown(); }
  const Endpoint& endpoint() const override { return acceptor_->endpoint(); }

 private:
  const std::unique_ptr<Acceptor> acceptor_;
  const std::shared_ptr<TlsShared> shared_;  // with the transport and its connections
  const TlsRole role_;
};

class TlsTransport final : public SecureTransport {
 public:
  explicit TlsTransport(std::shared_ptr<TlsShared> shared) : shared_(std::move(shared)) {}

  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override {
    return listen_as(endpoint, {.server = true, .wanted = endpoint.node});
  }

  Result<std::unique_ptr<Listener>> listen_for_joiners(const Endpoint& endpoint) override {
    return listen_as(endpoint, {.server = true, .joiners_welcome = true, .wanted = endpoint.node});
  }

  Result<std::unique_ptr<Connection>> connect(const Endpoint& endpoint,
                                              TimePoint deadline) override {
    // Before anything is sent: without a certificate there is nothing to say.
    if (auto context = shared_->member_context(); !context) {
      return fail(std::move(context).error());
    }
    return connect_as(endpoint, {.wanted = endpoint.node}, deadline);
  }

  Result<JoinLink> connect_for_join(const Endpoint& endpoint,
                                    const std::string& authority_fingerprint,
                                    TimePoint deadline) override {
    if (authority_fingerprint.empty()) {
      return fail(ErrorCode::kInvalidArgument, "the fingerprint of the cluster is missing");
    }
    const TlsRole role = {.authority_fingerprint = authority_fingerprint, .wanted = endpoint.node};
    ASSIGN_OR_RETURN(auto connection, connect_as(endpoint, role, deadline));
    std::string authority_pem = connection->authority_pem();
    return JoinLink{std::move(connection), std::move(authority_pem)};
  }

  Result<void> set_identity(const identity::NodeIdentity& identity) override {
    return shared_->set_identity(identity);
  }

  void close_peer(const NodeId& node) override { shared_->live().close(node); }

 private:
  Result<std::unique_ptr<Listener>> listen_as(const Endpoint& endpoint, TlsRole role) {
    RETURN_IF_ERROR(check_tls(endpoint));
    ASSIGN_OR_RETURN(auto acceptor, Acceptor::listen(endpoint));
    return std::make_unique<TlsListener>(std::move(acceptor), shared_, std::move(role));
  }

  Result<std::unique_ptr<TlsConnection>> connect_as(const Endpoint& endpoint, TlsRole role,
                                                    TimePoint deadline) {
    RETURN_IF_ERROR(check_tls(endpoint));
    ASSIGN_OR_RETURN(Descriptor descriptor, connect_to(endpoint, deadline));
    set_keep_alive(descriptor.get());
    Endpoint there = endpoint;
    there.node = {};  // 64 digits that make no message better
    auto connection = std::make_unique<TlsConnection>(std::move(descriptor), to_string(there),
                                                      shared_, std::move(role));
    RETURN_IF_ERROR(connection->handshake(deadline));
    return connection;
  }

  const std::shared_ptr<TlsShared> shared_;  // with its listeners and connections
};

}  // namespace

Result<std::unique_ptr<SecureTransport>> make_tls_transport(const TlsOptions& options) {
  ASSIGN_OR_RETURN(auto shared, TlsShared::make(options));
  return std::make_unique<TlsTransport>(std::move(shared));
}

}  // namespace salvage::transport
