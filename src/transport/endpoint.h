#pragma once

// Where somebody listens: `unix:/run/x.sock`, `tcp:127.0.0.1:7001`, `tcp:[::1]:7001` on this
// machine, `tls:192.168.1.20:7420`, `tls:[fe80::2%eth0]:7420` anywhere. Port 0 asks the system to
// choose. Parsing is strict, with errors that quote the text: a stray space or comma in a list of
// machines must not silently become "no machine". Plaintext exists within this machine only, so a
// tcp: address that is not loopback is refused here already.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace salvage::transport {

enum class EndpointKind : std::uint8_t { kUnix, kTcp4, kTcp6, kTls4, kTls6 };

struct Endpoint {
  EndpointKind kind = EndpointKind::kUnix;
  std::string path;     // kUnix: absolute
  std::string address;  // numeric, without brackets; kTls6: perhaps with %interface
  std::uint16_t port = 0;
  // kTls: who has to be there, written `tls:192.168.1.20:7420/<node id>`; empty: any member.
  NodeId node;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

constexpr bool is_tls(EndpointKind kind) {
  return kind == EndpointKind::kTls4 || kind == EndpointKind::kTls6;
}

// `invalid_argument` for what is no endpoint, `unsupported` for a tcp: address off this machine.
Result<Endpoint> parse_endpoint(std::string_view text);

// Comma separated; an empty item is an error, so is an empty list.
Result<std::vector<Endpoint>> parse_endpoints(std::string_view text);

// The text that parse_endpoint() reads.
std::string to_string(const Endpoint& endpoint);

}  // namespace salvage::transport
