#pragma once

// IEEE 754 halves in software, without branches, so that a compiler turns the loops over rows into
// vector code on any CPU. Rounds to nearest, ties to even; what is too large becomes infinity,
// subnormals are exact, a NaN stays a NaN (quiet, with the top of its payload).

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace salvage {

inline std::uint16_t float_to_half(float value) {
  constexpr std::uint32_t kHalfInfinityAsFloat = 0x47800000;  // 65536, the first out of range
  constexpr std::uint32_t kSmallestNormal = 0x38800000;       // 2^-14
  constexpr std::uint32_t kFloatInfinity = 0x7F800000;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;

  // Normal: move the exponent's bias from 127 to 15, round at bit 13. A carry out of the mantissa
  // lands in the exponent, which is right, up to infinity.
  const std::uint32_t normal = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal: adding 0.5 makes the float adder shift and round the mantissa for us.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3F000000;
  const std::uint32_t nan = 0x7E00 | ((magnitude >> 13) & 0x1FF);

  std::uint32_t half = magnitude < kSmallestNormal ? subnormal : normal;
  half = magnitude >= kHalfInfinityAsFloat ? 0x7C00 : half;
  half = magnitude > kFloatInfinity ? nan : half;
  return static_cast<std::uint16_t>(sign | half);
}

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t magnitude = half & 0x7FFF;
  // 0.5 + the subnormal's bits, minus 0.5: the float adder normalises it.
  const float subnormal = std::bit_cast<float>(0x3F000000 | magnitude) - 0.5F;
  const std::uint32_t normal = (magnitude << 13) + 0x38000000;
  const std::uint32_t special = (magnitude << 13) | 0x7F800000;
  std::uint32_t bits = magnitude < 0x0400 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  bits = magnitude >= 0x7C00 ? special : bits;
  return std::bit_cast<float>(sign | bits);
}

// Both spans have the same size.
void floats_to_halves(std::span<const float> floats, std::span<std::uint16_t> halves);
void halves_to_floats(std::span<const std::uint16_t> halves, std::span<float> floats);

}  // namespace salvage
