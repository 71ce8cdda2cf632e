#pragma once

// Numeric IP addresses as text and as bytes. Names are not resolved, and an IPv6 address comes
// without brackets and without %interface. Pure: nothing here touches the network.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace salvage {

struct IpAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // in network order; an IPv4 address has the first four
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

constexpr std::size_t byte_count(const IpAddress& address) {
  return address.v6 ? 16 : 4;
}

// Nothing for what is no numeric address: "localhost", "127.1", "::1%lo".
std::optional<IpAddress> parse_ip_address(std::string_view text);

// 127.0.0.0/8 and ::1.
bool is_loopback(const IpAddress& address);

// The one form that every address has: "::1", never "0:0::1".
std::string to_string(const IpAddress& address);

}  // namespace salvage
