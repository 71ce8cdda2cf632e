#pragma once

// Hidden states on the wire: row_count x row_width floats as f32 (bit-exact, the default), f16, or
// q8 (blocks of 32 values: one f32 scale, then 32 int8; the last block of a row may be shorter).
// See docs/wire.md for the layouts and docs/decisions/0003 for what the lossy ones cost.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace salvage::wire {

enum class HiddenType : std::uint8_t { kF32 = 0, kF16 = 1, kQ8 = 2 };

// "f32", "f16", "q8": on the command line, in LoadStage and in statistics.
std::string_view hidden_type_name(HiddenType type);
Result<HiddenType> parse_hidden_type(std::string_view name);

inline constexpr std::uint32_t kQ8BlockValues = 32;

struct HiddenShape {
  std::uint32_t row_count = 0;
  std::uint32_t row_width = 0;
  HiddenType type = HiddenType::kF32;
  friend bool operator==(const HiddenShape&, const HiddenShape&) = default;
};

// Cannot overflow for shapes within kRowsMax and kRowWidthMax, which every decoder checks first.
std::uint64_t row_bytes(std::uint32_t row_width, HiddenType type);
std::uint64_t hidden_bytes(const HiddenShape& shape);

// A reusable block of floats, aligned to a cache line, that never initialises what it hands out and
// only grows. Received f32 rows land here and go to the engine from here, without another copy.
class FloatBuffer {
 public:
  // Room for `count` floats with unspecified values; earlier spans become invalid. The caller has
  // checked `count` against its plan. `resource_exhausted` if there is no memory.
  Result<std::span<float>> resize(std::uint64_t count);

  std::span<float> floats() { return {values_.get(), count_}; }
  std::span<const float> floats() const { return {values_.get(), count_}; }
  std::span<std::byte> bytes() { return std::as_writable_bytes(floats()); }

 private:
  struct Free {
    void operator()(float* values) const;
  };
  std::unique_ptr<float[], Free> values_;
  std::size_t count_ = 0;
  std::size_t capacity_ = 0;
};

// Rows as their bytes on the wire. `rows` holds a whole number of rows of `row_width` values; the
// result replaces `out`. f32 needs no call: send the floats' own bytes (float_bytes).
// f16: round to nearest even; too large becomes infinity, NaN stays NaN.
// q8: the scale is the largest magnitude of a block / 127; NaN becomes 0, infinities the largest.
void encode_hidden(std::span<const float> rows, std::uint32_t row_width, HiddenType type,
                   std::vector<std::byte>& out);

// The reverse. `invalid_argument` unless `bytes` and `rows` both have the size that the shape says.
Result<void> decode_hidden(std::span<const std::byte> bytes, const HiddenShape& shape,
                           std::span<float> rows);

// f32 on the wire is little endian, which is how every machine we build for stores it.
inline std::span<const std::byte> float_bytes(std::span<const float> values) {
  return std::as_bytes(values);
}

}  // namespace salvage::wire
