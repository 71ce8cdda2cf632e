#include "base/float16.h"

#include "base/check.h"

namespace salvage {

void floats_to_halves(std::span<const float> floats, std::span<std::uint16_t> halves) {
  CHECK(floats.size() == halves.size());
  for (std::size_t i = 0; i < floats.size(); ++i) halves[i] = float_to_half(floats[i]);
}

void halves_to_floats(std::span<const std::uint16_t> halves, std::span<float> floats) {
  CHECK(floats.size() == halves.size());
  for (std::size_t i = 0; i < halves.size(); ++i) floats[i] = half_to_float(halves[i]);
}

}  // namespace salvage
