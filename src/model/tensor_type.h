#pragma once

// The element types of tensors in GGUF files, as llama.cpp v0.4.0 numbers and packs them. Values
// are stored in blocks along a row: `block_elements` values take `block_bytes` bytes. Our own
// table, because model/ reads files without linking libllama.

#include <cstdint>
#include <optional>
#include <string_view>

namespace salvage::model {

enum class TensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ8_0 = 8,
  kI32 = 26,
  kBF16 = 30,
  // The others are only ever copied; tensor_type_facts() knows them by number.
};

struct TensorTypeFacts {
  std::string_view name;
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
};

// Nothing for a number that v0.4.0 doesn't read: unknown, or removed from the format.
std::optional<TensorTypeFacts> tensor_type_facts(std::uint32_t number);

// For a type that came out of the reader, which refuses all others.
std::string_view tensor_type_name(TensorType type);

}  // namespace salvage::model
