#pragma once

// JSON from somebody else: bounded in size, depth and in what it costs to build before it becomes a
// value, and a Result instead of an exception. Pure, any thread. `invalid_argument` says at which
// byte.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace salvage::api {

using Json = nlohmann::ordered_json;  // a tool's schema keeps the order of its keys

struct JsonLimits {
  std::size_t bytes_max = std::size_t{64} << 10;
  int depth_max = 8;
  // A value of one byte of text takes 16 bytes of memory and more.
  std::size_t values_max = std::size_t{1} << 20;
  // An object is searched for each new key of its, from the first: n keys cost n*n/2 comparisons.
  // 50 million are a fraction of a second, or one object of 10,000 keys.
  std::uint64_t key_lookups_max = 50'000'000;
};

Result<Json> parse_bounded_json(std::string_view text, const JsonLimits& limits);

// On one line; what is no UTF-8 is replaced.
std::string to_line(const Json& json);

}  // namespace salvage::api
