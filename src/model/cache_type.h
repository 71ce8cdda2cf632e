#pragma once

// The element type of a KV cache. q8_0 is the default: with flash attention its bits depend neither
// on chunk size nor on neighbours nor on threads (docs/decisions/0002).

#include <string_view>

namespace salvage {

enum class CacheType { kQ8_0, kF16 };

constexpr std::string_view cache_type_name(CacheType type) {
  return type == CacheType::kQ8_0 ? "q8_0" : "f16";
}

}  // namespace salvage
