#include "transport/tcp/socket.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "transport/tcp/socket_address.h"

namespace salvage::transport {
namespace {

// A pipeline has a handful of links; more waiting means trouble.
constexpr int kBacklog = 64;
// On a port that many reach, trouble must not keep friends out.
constexpr int kPortBacklog = 512;
// An idle peer is asked for a sign of life after 15 s, then every 5 s. One that acknowledges
// nothing, or takes nothing because its disk has stalled, is given up after a minute.
constexpr int kKeepAliveIdleSeconds = 15;
constexpr int kKeepAliveIntervalSeconds = 5;
constexpr int kKeepAliveProbes = 3;
constexpr int kUnacknowledgedMsMax = 60'000;
// One call moves at most so much; the kernel's own limit is a little under 2 GiB.
constexpr std::size_t kCallBytesMax = std::size_t{1} << 30;

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
      return ErrorCode::kPermissionDenied;
    case ENOENT:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
      return ErrorCode::kUnavailable;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case ENOSPC:
      return ErrorCode::kResourceExhausted;
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case ENOTDIR:
    case EROFS:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kUnavailable;
  }
}

// poll(2) takes milliseconds: rounded up, so that a wait never ends before its deadline.
int poll_timeout_ms(TimePoint deadline) {
  if (deadline == kNoDeadline) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

bool passed(TimePoint deadline) {
  return deadline != kNoDeadline && std::chrono::steady_clock::now() >= deadline;
}

// A socket file that nobody listens on any more was left by a process that died; anything else that
// stands under the name is not ours to remove.
Result<void> remove_stale_socket(const Endpoint& endpoint) {
  struct stat status {};
  if (::lstat(endpoint.path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} exists and is no socket", endpoint.path));
  }
  ASSIGN_OR_RETURN(const Descriptor probe, make_socket(endpoint));
  ASSIGN_OR_RETURN(SocketAddress address, socket_address(endpoint));
  if (::connect(probe.get(), address.get(), address.bytes) == 0 || errno != ECONNREFUSED) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("another process listens on {}", endpoint.path));
  }
  ::unlink(endpoint.path.c_str());
  return {};
}

// After an interrupted or pending connect: wait, then ask how it ended.
Result<void> finish_connect(int fd, const Endpoint& endpoint, TimePoint deadline) {
  RETURN_IF_ERROR(wait_for(fd, -1, POLLOUT, deadline));
  int error_number = 0;
  socklen_t bytes = sizeof(error_number);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes);
  if (error_number != 0) return fail(system_error("connect " + to_string(endpoint), error_number));
  return {};
}

// Drops what was sent from the front of the list.
void drop_front(std::span<iovec>& parts, std::size_t count) {
  while (!parts.empty() && count >= parts.front().iov_len) {
    count -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (parts.empty()) return;
  parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + count;
  parts.front().iov_len -= count;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}
Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Error system_error(std::string_view what, int error_number) {
  return Error(code_of(error_number),
               fmt::format("{}: {}", what, std::generic_category().message(error_number)));
}

Result<void> wait_for(int fd, int wake_fd, short events, TimePoint deadline) {
  for (;;) {
    pollfd polled[2] = {{fd, events, 0}, {wake_fd, POLLIN, 0}};
    const int ready = ::poll(polled, 2, poll_timeout_ms(deadline));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(system_error("poll", errno));
    if (passed(deadline)) return fail(ErrorCode::kDeadlineExceeded, "the time is over");
  }
}

bool peer_gone(int fd) {
  pollfd polled{fd, POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Result<Descriptor> make_socket(const Endpoint& endpoint) {
  const bool v4 = endpoint.kind == EndpointKind::kTcp4 || endpoint.kind == EndpointKind::kTls4;
  const int family = endpoint.kind == EndpointKind::kUnix ? AF_UNIX : v4 ? AF_INET : AF_INET6;
  Descriptor descriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!descriptor.open()) return fail(system_error("socket", errno));
  set_no_delay(descriptor.get(), endpoint);
  return descriptor;
}

void set_no_delay(int fd, const Endpoint& endpoint) {
  if (endpoint.kind == EndpointKind::kUnix) return;
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void set_keep_alive(int fd) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  const std::pair<int, int> settings[] = {{TCP_KEEPIDLE, kKeepAliveIdleSeconds},
                                          {TCP_KEEPINTVL, kKeepAliveIntervalSeconds},
                                          {TCP_KEEPCNT, kKeepAliveProbes},
                                          {TCP_USER_TIMEOUT, kUnacknowledgedMsMax}};
  for (const auto& [option, value] : settings) {
    ::setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value));
  }
}

void set_pace(int fd, std::uint64_t bytes_per_second) {
  const std::uint64_t rate = bytes_per_second == 0 ? ~std::uint64_t{0} : bytes_per_second;
  // A kernel that can't pace sends as ever: slower answers, not wrong ones.
  (void)::setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
}

void acknowledge(int fd) {
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL, 0) | O_NONBLOCK);
}

Result<Descriptor> listen_on(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(Descriptor descriptor, make_socket(endpoint));
  const std::string what = "listen on " + to_string(endpoint);
  if (endpoint.kind == EndpointKind::kUnix) {
    RETURN_IF_ERROR(remove_stale_socket(endpoint));
    // Before bind, so that the file never exists with wider rights, whatever the umask.
    if (::fchmod(descriptor.get(), S_IRUSR | S_IWUSR) != 0) return fail(system_error(what, errno));
  } else {
    const int on = 1;
    ::setsockopt(descriptor.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (endpoint.kind == EndpointKind::kTls6 || endpoint.kind == EndpointKind::kTcp6) {
    const int v6_only = 0;
    ::setsockopt(descriptor.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only));
  }
  ASSIGN_OR_RETURN(SocketAddress address, socket_address(endpoint));
  const int backlog = endpoint.kind == EndpointKind::kUnix ? kBacklog : kPortBacklog;
  if (::bind(descriptor.get(), address.get(), address.bytes) != 0 ||
      ::listen(descriptor.get(), backlog) != 0) {
    return fail(system_error(what, errno));
  }
  return descriptor;
}

Result<Descriptor> connect_to(const Endpoint& endpoint, TimePoint deadline) {
  ASSIGN_OR_RETURN(Descriptor descriptor, make_socket(endpoint));
  const int fd = descriptor.get();
  const std::string what = "connect " + to_string(endpoint);
  ASSIGN_OR_RETURN(SocketAddress address, socket_address(endpoint));
  timeval send_timeout{};
  for (;;) {
    // Connecting blocks while the listener's backlog is full; SO_SNDTIMEO bounds it.
    const int wait_ms = deadline == kNoDeadline ? 0 : std::max(poll_timeout_ms(deadline), 1);
    send_timeout = {wait_ms / 1000, suseconds_t{wait_ms % 1000} * 1000};
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_timeout, sizeof(send_timeout));
    if (::connect(fd, address.get(), address.bytes) == 0) break;
    if (errno == EAGAIN || errno == EINPROGRESS) {
      return fail(ErrorCode::kDeadlineExceeded, what + ": no answer in time");
    }
    if (errno != EINTR) return fail(system_error(what, errno));
    if (endpoint.kind != EndpointKind::kUnix) {
      RETURN_IF_ERROR(finish_connect(fd, endpoint, deadline));
      break;
    }
  }
  send_timeout = {0, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_timeout, sizeof(send_timeout));
  return descriptor;
}

Result<std::int64_t> check_same_user(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return fail(system_error("ask who is at the other end", errno));
  }
  if (peer.uid != ::geteuid()) {
    return fail(ErrorCode::kPermissionDenied,
                fmt::format("the process at the other end belongs to user {}, not to {}", peer.uid,
                            ::geteuid()));
  }
  return peer.pid;
}

Transfer send_all(int fd, std::span<iovec> parts, TimePoint deadline) {
  Transfer transfer;
  drop_front(parts, 0);
  while (!parts.empty()) {
    iovec first = parts.front();
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    if (first.iov_len > kCallBytesMax) {
      first.iov_len = kCallBytesMax;
      message.msg_iov = &first;
      message.msg_iovlen = 1;
    }
    const int wait = deadline == kNoDeadline ? 0 : MSG_DONTWAIT;
    const auto sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | wait);
    if (sent >= 0) {
      transfer.bytes_done += static_cast<std::uint64_t>(sent);
      drop_front(parts, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      transfer.result = wait_for(fd, -1, POLLOUT, deadline);
    } else if (errno != EINTR) {
      transfer.result = fail(system_error("send", errno));
    }
    if (!transfer.result) break;
  }
  return transfer;
}

Transfer receive_all(int fd, std::span<std::byte> into, TimePoint deadline) {
  Transfer transfer;
  while (!into.empty()) {
    const int wait = deadline == kNoDeadline ? MSG_WAITALL : MSG_DONTWAIT;
    const auto got = ::recv(fd, into.data(), std::min(into.size(), kCallBytesMax), wait);
    if (got > 0) {
      transfer.bytes_done += static_cast<std::uint64_t>(got);
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      transfer.result = fail(ErrorCode::kUnavailable, "the peer closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      transfer.result = wait_for(fd, -1, POLLIN, deadline);
    } else if (errno != EINTR) {
      transfer.result = fail(system_error("receive", errno));
    }
    if (!transfer.result) break;
  }
  return transfer;
}

}  // namespace salvage::transport
