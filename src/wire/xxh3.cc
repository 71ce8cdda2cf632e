#include "wire/xxh3.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace salvage::wire {

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t xxh3(std::span<const std::byte> first, std::span<const std::byte> second) {
  if (second.empty()) return xxh3(first);
  if (first.empty()) return xxh3(second);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, first.data(), first.size());
  XXH3_64bits_update(&state, second.data(), second.size());
  return XXH3_64bits_digest(&state);
}

}  // namespace salvage::wire
