#pragma once

// JSON from somebody else: bounded in size and depth before it becomes a value, and a Result
// instead of an exception. Pure, any thread. `invalid_argument` says at which byte.

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace salvage::gateway {

struct JsonLimits {
  std::size_t bytes_max = std::size_t{64} << 10;
  int depth_max = 8;
};

Result<nlohmann::ordered_json> parse_bounded_json(std::string_view text, const JsonLimits& limits);

// On one line; what is no UTF-8 is replaced.
std::string to_line(const nlohmann::ordered_json& json);

}  // namespace salvage::gateway
