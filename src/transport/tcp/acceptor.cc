#include "transport/tcp/acceptor.h"

#include <cerrno>
#include <cstdint>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/tcp/socket_address.h"

namespace salvage::transport {

Result<std::unique_ptr<Acceptor>> Acceptor::listen(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(Descriptor descriptor, listen_on(endpoint));
  // accept4 must not block when the peer that woke us has gone in between.
  set_nonblocking(descriptor.get());
  ASSIGN_OR_RETURN(Endpoint real, local_endpoint(descriptor.get(), endpoint));
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.open()) return fail(system_error("eventfd", errno));
  // Not make_unique: the constructor is private.
  return std::unique_ptr<Acceptor>(
      new Acceptor(std::move(descriptor), std::move(wake), std::move(real)));
}

Acceptor::Acceptor(Descriptor descriptor, Descriptor wake, Endpoint endpoint)
    : descriptor_(std::move(descriptor)), wake_(std::move(wake)), endpoint_(std::move(endpoint)) {}

Acceptor::~Acceptor() {
  if (endpoint_.kind == EndpointKind::kUnix) ::unlink(endpoint_.path.c_str());
}

Result<Descriptor> Acceptor::accept(TimePoint deadline) {
  for (int tries = 0; tries < kAcceptTriesMax; ++tries) {
    RETURN_IF_ERROR(wait_for(descriptor_.get(), wake_.get(), POLLIN, deadline));
    if (shut_down_) return fail(ErrorCode::kUnavailable, "the listener was shut down");
    Descriptor accepted(::accept4(descriptor_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (accepted.open()) {
      set_no_delay(accepted.get(), endpoint_);
      return accepted;
    }
    const bool again = errno == EINTR || errno == ECONNABORTED || errno == EAGAIN;
    if (!again) return fail(system_error("accept on " + to_string(endpoint_), errno));
  }
  return fail(ErrorCode::kResourceExhausted, "too many peers vanished before they were accepted");
}

void Acceptor::shutdown() {
  shut_down_ = true;
  const std::uint64_t one = 1;
  // An eventfd that nobody reads can only fail to take a value when it is full: awake already.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

}  // namespace salvage::transport
