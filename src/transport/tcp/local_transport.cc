#include "transport/tcp/local_transport.h"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "transport/tcp/acceptor.h"
#include "transport/tcp/socket_connection.h"

namespace salvage::transport {
namespace {

// Who is at the other end, for logs; `permission_denied` if it may not be.
Result<std::string> identify(int fd, const Endpoint& endpoint) {
  if (endpoint.kind != EndpointKind::kUnix) return to_string(endpoint);
  ASSIGN_OR_RETURN(const std::int64_t pid, check_same_user(fd));
  return fmt::format("{} pid {}", to_string(endpoint), pid);
}

class SocketListener final : public Listener {
 public:
  explicit SocketListener(std::unique_ptr<Acceptor> acceptor) : acceptor_(std::move(acceptor)) {}

  Result<std::unique_ptr<Connection>> accept(TimePoint deadline) override {
    for (int tries = 0; tries < kAcceptTriesMax; ++tries) {
      ASSIGN_OR_RETURN(Descriptor accepted, acceptor_->accept(deadline));
      auto peer = identify(accepted.get(), endpoint());
      if (!peer) continue;
      return std::make_unique<SocketConnection>(std::move(accepted), std::move(*peer));
    }
    return fail(ErrorCode::kResourceExhausted, "too many peers were turned away");
  }

  void shutdown() override { acceptor_->shutdown(); }

  const Endpoint& endpoint() const override { return acceptor_->endpoint(); }

 private:
  const std::unique_ptr<Acceptor> acceptor_;
};

class LocalTransport final : public Transport {
 public:
  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override {
    RETURN_IF_ERROR(check_local(endpoint));
    ASSIGN_OR_RETURN(auto acceptor, Acceptor::listen(endpoint));
    return std::make_unique<SocketListener>(std::move(acceptor));
  }

  Result<std::unique_ptr<Connection>> connect(const Endpoint& endpoint,
                                              TimePoint deadline) override {
    RETURN_IF_ERROR(check_local(endpoint));
    ASSIGN_OR_RETURN(Descriptor descriptor, connect_to(endpoint, deadline));
    ASSIGN_OR_RETURN(std::string peer, identify(descriptor.get(), endpoint));
    return std::make_unique<SocketConnection>(std::move(descriptor), std::move(peer));
  }

 private:
  // Endpoints made by hand pass the same gate as parsed ones.
  static Result<void> check_local(const Endpoint& endpoint) {
    if (is_tls(endpoint.kind)) {
      return fail(ErrorCode::kUnsupported,
                  to_string(endpoint) + ": this transport never leaves the machine");
    }
    auto parsed = parse_endpoint(to_string(endpoint));
    if (!parsed) return fail(std::move(parsed).error());
    return {};
  }
};

}  // namespace

std::unique_ptr<Transport> make_local_transport() {
  return std::make_unique<LocalTransport>();
}

}  // namespace salvage::transport
