#include "base/ip_address.h"

#include <arpa/inet.h>

namespace salvage {

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  if (text.size() >= INET6_ADDRSTRLEN || text.find('\0') != std::string_view::npos) return {};
  IpAddress address;
  address.v6 = text.find(':') != std::string_view::npos;
  const int family = address.v6 ? AF_INET6 : AF_INET;
  if (::inet_pton(family, std::string(text).c_str(), address.bytes.data()) != 1) return {};
  return address;
}

bool is_loopback(const IpAddress& address) {
  if (!address.v6) return address.bytes[0] == 127;
  std::array<std::uint8_t, 16> loopback{};
  loopback.back() = 1;
  return address.bytes == loopback;
}

std::string to_string(const IpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = address.v6 ? AF_INET6 : AF_INET;
  // It can only fail for want of room, and there is enough.
  ::inet_ntop(family, address.bytes.data(), text.data(), text.size());
  return text.data();
}

}  // namespace salvage
