#include "wire/hidden.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "base/check.h"
#include "base/float16.h"
#include "wire/bytes.h"

namespace salvage::wire {
namespace {

constexpr std::size_t kBufferAlignment = 64;  // a cache line
constexpr std::size_t kScaleBytes = sizeof(float);

// A little under the largest float, so that 127 x (this / 127) rounds to a finite one.
constexpr float kQ8MagnitudeMax = 3.4e38F;
// Below it 1 / scale would not be finite; such a block (all magnitudes under 1.5e-36) is written as
// zeros.
constexpr float kQ8ScaleMin = 0x1.0p-126F;
// Adding it to |x| < 2^22 leaves x, rounded to nearest even, in the low bits of the sum.
constexpr float kRoundingBias = 12582912.0F;  // 1.5 x 2^23
constexpr std::int32_t kRoundingBiasBits = 0x4B400000;

using Q8Values = std::array<float, kQ8BlockValues>;

// One block. Works on bits as integers: a maximum over integers vectorises, one over floats does
// not (the compiler must assume NaN), and NaN and infinity fall out on the way.
void encode_q8_block(Q8Values& values, std::byte* out) {
  constexpr std::int32_t kInfinityBits = 0x7F800000;
  constexpr auto kMagnitudeMaxBits = std::bit_cast<std::int32_t>(kQ8MagnitudeMax);
  std::int32_t largest = 0;
  for (float& value : values) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    std::int32_t magnitude = bits & 0x7FFFFFFF;
    magnitude = magnitude > kInfinityBits ? 0 : magnitude;
    magnitude = magnitude > kMagnitudeMaxBits ? kMagnitudeMaxBits : magnitude;
    largest = magnitude > largest ? magnitude : largest;
    value = std::bit_cast<float>(magnitude | (bits & std::int32_t{-0x7FFFFFFF - 1}));
  }
  float scale = std::bit_cast<float>(largest) / 127.0F;
  scale = scale < kQ8ScaleMin ? 0.0F : scale;
  const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
  store(out, scale);
  for (std::size_t i = 0; i < kQ8BlockValues; ++i) {
    const float biased = values[i] * inverse + kRoundingBias;
    const std::int32_t rounded = std::bit_cast<std::int32_t>(biased) - kRoundingBiasBits;
    out[kScaleBytes + i] = static_cast<std::byte>(rounded);
  }
}

void encode_q8_row(std::span<const float> row, std::byte* out) {
  Q8Values block;
  while (row.size() >= kQ8BlockValues) {
    std::memcpy(block.data(), row.data(), sizeof(block));
    encode_q8_block(block, out);
    out += kScaleBytes + kQ8BlockValues;
    row = row.subspan(kQ8BlockValues);
  }
  if (row.empty()) return;
  block.fill(0.0F);
  std::copy(row.begin(), row.end(), block.begin());
  std::array<std::byte, kScaleBytes + kQ8BlockValues> last;
  encode_q8_block(block, last.data());
  std::memcpy(out, last.data(), kScaleBytes + row.size());
}

void decode_q8_row(const std::byte* in, std::span<float> row) {
  for (std::size_t at = 0; at < row.size(); at += kQ8BlockValues) {
    const std::size_t count = std::min<std::size_t>(kQ8BlockValues, row.size() - at);
    const auto scale = load<float>(in);
    const std::byte* values = in + kScaleBytes;
    float* out = row.data() + at;
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = scale * static_cast<float>(static_cast<std::int8_t>(values[i]));
    }
    in = values + count;
  }
}

// Halves lie unaligned in a byte buffer, so they move through a small aligned block.
constexpr std::size_t kHalvesBlock = 256;

void encode_f16(std::span<const float> rows, std::byte* out) {
  std::array<std::uint16_t, kHalvesBlock> block;
  for (std::size_t at = 0; at < rows.size(); at += kHalvesBlock) {
    const std::size_t count = std::min(kHalvesBlock, rows.size() - at);
    floats_to_halves(rows.subspan(at, count), std::span(block).first(count));
    std::memcpy(out + at * sizeof(std::uint16_t), block.data(), count * sizeof(std::uint16_t));
  }
}

void decode_f16(const std::byte* in, std::span<float> rows) {
  std::array<std::uint16_t, kHalvesBlock> block;
  for (std::size_t at = 0; at < rows.size(); at += kHalvesBlock) {
    const std::size_t count = std::min(kHalvesBlock, rows.size() - at);
    std::memcpy(block.data(), in + at * sizeof(std::uint16_t), count * sizeof(std::uint16_t));
    halves_to_floats(std::span(block).first(count), rows.subspan(at, count));
  }
}

}  // namespace

std::string_view hidden_type_name(HiddenType type) {
  switch (type) {
    case HiddenType::kF32:
      return "f32";
    case HiddenType::kF16:
      return "f16";
    case HiddenType::kQ8:
      return "q8";
  }
  return "f32";
}

Result<HiddenType> parse_hidden_type(std::string_view name) {
  for (const auto type : {HiddenType::kF32, HiddenType::kF16, HiddenType::kQ8}) {
    if (hidden_type_name(type) == name) return type;
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is no type for hidden states; there are f32, f16 and q8", name));
}

std::uint64_t row_bytes(std::uint32_t row_width, HiddenType type) {
  const std::uint64_t width = row_width;
  switch (type) {
    case HiddenType::kF32:
      return width * sizeof(float);
    case HiddenType::kF16:
      return width * sizeof(std::uint16_t);
    case HiddenType::kQ8:
      return width + (width + kQ8BlockValues - 1) / kQ8BlockValues * kScaleBytes;
  }
  return 0;
}

std::uint64_t hidden_bytes(const HiddenShape& shape) {
  return shape.row_count * row_bytes(shape.row_width, shape.type);
}

void FloatBuffer::Free::operator()(float* values) const {
  ::operator delete[](values, std::align_val_t{kBufferAlignment});
}

Result<std::span<float>> FloatBuffer::resize(std::uint64_t count) {
  if (count > capacity_) {
    values_.reset();
    capacity_ = 0;
    count_ = 0;
    void* memory = nullptr;
    if (count <= PTRDIFF_MAX / sizeof(float)) {
      memory =
          ::operator new[](count * sizeof(float), std::align_val_t{kBufferAlignment}, std::nothrow);
    }
    if (memory == nullptr) {
      return fail(
          ErrorCode::kResourceExhausted,
          fmt::format("no memory for {} bytes of hidden states or logits", count * sizeof(float)));
    }
    values_.reset(static_cast<float*>(memory));
    capacity_ = static_cast<std::size_t>(count);
  }
  count_ = static_cast<std::size_t>(count);
  return floats();
}

void encode_hidden(std::span<const float> rows, std::uint32_t row_width, HiddenType type,
                   std::vector<std::byte>& out) {
  CHECK(row_width > 0 && rows.size() % row_width == 0);
  const std::size_t row_count = rows.size() / row_width;
  const std::size_t one_row_bytes = row_bytes(row_width, type);
  out.resize(row_count * one_row_bytes);
  switch (type) {
    case HiddenType::kF32:
      if (!rows.empty()) std::memcpy(out.data(), rows.data(), rows.size_bytes());
      return;
    case HiddenType::kF16:
      encode_f16(rows, out.data());
      return;
    case HiddenType::kQ8:
      for (std::size_t i = 0; i < row_count; ++i) {
        encode_q8_row(rows.subspan(i * row_width, row_width), out.data() + i * one_row_bytes);
      }
      return;
  }
}

Result<void> decode_hidden(std::span<const std::byte> bytes, const HiddenShape& shape,
                           std::span<float> rows) {
  if (bytes.size() != hidden_bytes(shape) ||
      rows.size() != std::uint64_t{shape.row_count} * shape.row_width) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} bytes of hidden states do not fill {} rows of {} {} values", bytes.size(),
                    shape.row_count, shape.row_width, hidden_type_name(shape.type)));
  }
  switch (shape.type) {
    case HiddenType::kF32:
      if (!rows.empty()) std::memcpy(rows.data(), bytes.data(), rows.size_bytes());
      break;
    case HiddenType::kF16:
      decode_f16(bytes.data(), rows);
      break;
    case HiddenType::kQ8: {
      const std::size_t one_row_bytes = row_bytes(shape.row_width, shape.type);
      for (std::size_t i = 0; i < shape.row_count; ++i) {
        decode_q8_row(bytes.data() + i * one_row_bytes,
                      rows.subspan(i * shape.row_width, shape.row_width));
      }
      break;
    }
  }
  return {};
}

}  // namespace salvage::wire
