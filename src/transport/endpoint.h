#pragma once

// Where a stage listens: `unix:/run/x.sock`, `tcp:127.0.0.1:7001`, `tcp:[::1]:7001`. Port 0 asks
// the system to choose. Parsing is strict, with errors that quote the text: a stray space or comma
// in a list of machines must not silently become "no machine". This version links processes of one
// machine only, so anything but a Unix socket or loopback is refused here already.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace salvage::transport {

enum class EndpointKind : std::uint8_t { kUnix, kTcp4, kTcp6 };

struct Endpoint {
  EndpointKind kind = EndpointKind::kUnix;
  std::string path;     // kUnix: absolute
  std::string address;  // kTcp4, kTcp6: numeric, without brackets
  std::uint16_t port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// `invalid_argument` for what is no endpoint, `unsupported` for an address that is not loopback.
Result<Endpoint> parse_endpoint(std::string_view text);

// Comma separated; an empty item is an error, so is an empty list.
Result<std::vector<Endpoint>> parse_endpoints(std::string_view text);

// The text that parse_endpoint() reads.
std::string to_string(const Endpoint& endpoint);

}  // namespace salvage::transport
