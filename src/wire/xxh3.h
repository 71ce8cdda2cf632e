#pragma once

// XXH3-64 behind one small door: the library's header is large and is compiled in one place.

#include <cstddef>
#include <cstdint>
#include <span>

namespace salvage::wire {

std::uint64_t xxh3(std::span<const std::byte> bytes);

// Of `first` followed by `second`.
std::uint64_t xxh3(std::span<const std::byte> first, std::span<const std::byte> second);

}  // namespace salvage::wire
