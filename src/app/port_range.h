#pragma once

// "7421-7436" or "7421": ports to listen on, from a user or an agent. Pure.

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace salvage::app {

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;  // included
};

// `invalid_argument`, quoting the text; port 0 (any) is no range.
Result<PortRange> parse_port_range(std::string_view text);

}  // namespace salvage::app
