#include "transport/tcp/local_transport.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/tcp/socket.h"
#include "transport/tcp/socket_connection.h"

namespace salvage::transport {
namespace {

// Peers that were turned away or vanished before accept() gives up on the whole call: a flood of
// them must not keep a thread busy for ever.
constexpr int kAcceptTriesMax = 1000;

// Who is at the other end, for logs; `permission_denied` if it may not be.
Result<std::string> identify(int fd, const Endpoint& endpoint) {
  if (endpoint.kind != EndpointKind::kUnix) return to_string(endpoint);
  ASSIGN_OR_RETURN(const std::int64_t pid, check_same_user(fd));
  return fmt::format("{} pid {}", to_string(endpoint), pid);
}

class SocketListener final : public Listener {
 public:
  SocketListener(Descriptor descriptor, Descriptor wake, Endpoint endpoint)
      : descriptor_(std::move(descriptor)),
        wake_(std::move(wake)),
        endpoint_(std::move(endpoint)) {}
  ~SocketListener() override {
    if (endpoint_.kind == EndpointKind::kUnix) ::unlink(endpoint_.path.c_str());
  }

  Result<std::unique_ptr<Connection>> accept(TimePoint deadline) override {
    for (int tries = 0; tries < kAcceptTriesMax; ++tries) {
      if (auto ready = wait_for(descriptor_.get(), wake_.get(), POLLIN, deadline); !ready) {
        return fail(std::move(ready).error());
      }
      if (shut_down_) return fail(ErrorCode::kUnavailable, "the listener was shut down");
      Descriptor accepted(::accept4(descriptor_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!accepted.open()) {
        const bool again = errno == EINTR || errno == ECONNABORTED || errno == EAGAIN;
        if (again) continue;
        return fail(system_error("accept on " + to_string(endpoint_), errno));
      }
      set_no_delay(accepted.get(), endpoint_);
      auto peer = identify(accepted.get(), endpoint_);
      if (!peer) continue;
      return std::make_unique<SocketConnection>(std::move(accepted), std::move(*peer));
    }
    return fail(ErrorCode::kResourceExhausted, "too many peers were turned away");
  }

  void shutdown() override {
    shut_down_ = true;
    const std::uint64_t one = 1;
    // An eventfd that nobody reads can only fail to take a value when it is full: awake already.
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
  }

  const Endpoint& endpoint() const override { return endpoint_; }

 private:
  const Descriptor descriptor_;
  const Descriptor wake_;
  const Endpoint endpoint_;
  std::atomic<bool> shut_down_ = false;
};

class LocalTransport final : public Transport {
 public:
  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override {
    RETURN_IF_ERROR(check_local(endpoint));
    ASSIGN_OR_RETURN(Descriptor descriptor, listen_on(endpoint));
    // accept4 must not block when the peer that woke us has gone in between.
    set_nonblocking(descriptor.get());
    ASSIGN_OR_RETURN(Endpoint real, local_endpoint(descriptor.get(), endpoint));
    Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake.open()) return fail(system_error("eventfd", errno));
    return std::make_unique<SocketListener>(std::move(descriptor), std::move(wake),
                                            std::move(real));
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
