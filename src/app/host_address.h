#pragma once

// "attic", "attic.lan:7420", "10.0.0.2", "[fd00::2]:7420": where a person says that a machine is.
// Names are looked up once, here; everything below works with numbers.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace salvage::app {

struct HostPort {
  std::string host;  // without brackets
  std::uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Pure. `invalid_argument` quotes the text.
Result<HostPort> parse_host_port(std::string_view text, std::uint16_t default_port);

// "tls:..." endpoints of all its addresses; asks the system, which may take some seconds.
// `unavailable` if the name is unknown.
Result<std::vector<std::string>> resolve_host(const HostPort& place);

}  // namespace salvage::app
