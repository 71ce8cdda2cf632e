#pragma once

// The system's stream sockets with our errors: descriptors that close themselves, waits with
// absolute deadlines, and loops around partial and interrupted calls.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <sys/uio.h>

#include "base/clock.h"
#include "base/result.h"
#include "transport/endpoint.h"

namespace salvage::transport {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// "bind unix:/x: permission denied", with a code that fits the system's error number.
Error system_error(std::string_view what, int error_number);

// Waits for `events` (POLLIN, POLLOUT) on `fd`; `wake_fd` (or -1) ends the wait early, too.
// `deadline_exceeded` once the time has come.
Result<void> wait_for(int fd, int wake_fd, short events, TimePoint deadline);

// A stream socket for the endpoint's family, closed on exec, with TCP_NODELAY where it applies.
Result<Descriptor> make_socket(const Endpoint& endpoint);

void set_no_delay(int fd, const Endpoint& endpoint);  // TCP only
void set_nonblocking(int fd);
// TCP only; 0: not at all.
void set_pace(int fd, std::uint64_t bytes_per_second);
// TCP only: for how many microseconds, together, something that was sent was not acknowledged yet.
// The kernel counts in ticks of some milliseconds, so it is right on average.
std::optional<std::uint64_t> busy_us(int fd);
// TCP only: acknowledges at once what has come, instead of with the next bytes that leave or some
// 40 ms later. Without it the peer's busy_us() would count those.
void acknowledge(int fd);
// A TCP peer that vanishes without a word is noticed within a minute, on an idle link as on
// one that waits for its acknowledgement.
void set_keep_alive(int fd);

// An IPv6 listener for all addresses (::) takes IPv4 peers, too.
Result<Descriptor> listen_on(const Endpoint& endpoint);
Result<Descriptor> connect_to(const Endpoint& endpoint, TimePoint deadline);

// Has the peer ended its side of the connection, or vanished, as far as the system knows?
bool peer_gone(int fd);

// The process behind a Unix socket must be of our user: `permission_denied` otherwise.
// Returns its process id.
Result<std::int64_t> check_same_user(int fd);

// How far a transfer came before it ended; tells a clean boundary from the middle of a frame.
struct Transfer {
  std::uint64_t bytes_done = 0;
  Result<void> result;
};

// All of `parts`, which are changed on the way.
Transfer send_all(int fd, std::span<iovec> parts, TimePoint deadline);
// Exactly `into.size()` bytes. `unavailable` if the peer closes before.
Transfer receive_all(int fd, std::span<std::byte> into, TimePoint deadline);

}  // namespace salvage::transport
