#pragma once

// Two kinds of chance, never mixed up: secrets come from the system's generator, everything that
// must be repeatable (tests, fuzzers, simulation) from a seed.

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/result.h"

namespace salvage {

// `byte_count` bytes of the system's generator as lower-case hex. `unavailable` if it has none.
Result<std::string> random_hex(std::size_t byte_count);

// Takes the same time wherever the texts differ. Their lengths are no secret.
bool equal_constant_time(std::string_view a, std::string_view b);

// A seeded generator (xoshiro256**): the same numbers for the same seed on every machine and
// compiler. Works with the standard's distributions, whose results are not portable, though: use
// below() and unit() where a test pins values. Not for secrets.
class Random {
 public:
  using result_type = std::uint64_t;
  explicit Random(std::uint64_t seed);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()();

  // 0 .. bound-1; bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // [0, 1)
  double unit();

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace salvage
