// Apart from socket.cc: the kernel's header with the newer fields and the C library's can't be read
// in one file.

#include <cstddef>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/tcp/socket.h"

namespace salvage::transport {

std::optional<std::uint64_t> busy_us(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return std::nullopt;  // no TCP
  // A kernel before 4.10 fills in less.
  constexpr std::size_t kNeeded = offsetof(tcp_info, tcpi_busy_time) + sizeof(info.tcpi_busy_time);
  if (bytes < kNeeded) return std::nullopt;
  return info.tcpi_busy_time;
}

}  // namespace salvage::transport
