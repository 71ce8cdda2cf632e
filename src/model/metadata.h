#pragma once

// The key-value part of a GGUF file: typed values in the order of the file. A value keeps its
// payload exactly as the file packs it (little-endian, strings with 8-byte lengths), so a
// vocabulary of 150,000 strings is one allocation and copying a model's metadata changes no bit of
// it. Plain values; the readers below return nothing when a value has another type.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace salvage::model {

// Numbers of the file format.
enum class ValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,  // Of the file only; a Value has its element's type and is_array.
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// Bytes of one value in the file; 0 for strings, arrays and numbers that are no type.
std::uint32_t value_type_bytes(ValueType type);

// `value`, or the largest that fits: a file's counts are wider than what we keep them in.
constexpr std::uint32_t narrow(std::uint64_t value) {
  return value > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(value);
}

class Value {
 public:
  static Value u32(std::uint32_t value);
  static Value f32(float value);
  static Value boolean(bool value);
  static Value string(std::string_view value);
  static Value u32_array(const std::vector<std::uint32_t>& values);
  static Value f32_array(const std::vector<float>& values);
  static Value bool_array(const std::vector<bool>& values);
  static Value string_array(const std::vector<std::string>& values);
  // `payload` is exactly what the file holds after type and count; the reader has checked it.
  static Value from_file(ValueType type, bool is_array, std::uint64_t count, std::string payload);

  ValueType type() const { return type_; }  // of one element, if an array
  bool is_array() const { return is_array_; }
  std::uint64_t count() const { return count_; }  // 1 if not an array
  const std::string& payload() const { return payload_; }

  // Element `index`; nothing if out of range, of another kind, or a negative number.
  std::optional<std::uint64_t> unsigned_at(std::uint64_t index) const;
  std::optional<double> real_at(std::uint64_t index) const;
  // The string of a value that is not an array.
  std::optional<std::string_view> text() const;
  // All strings of a string array, borrowed from this value.
  std::vector<std::string_view> texts() const;

  // Elements [begin, end) of an array; begin <= end <= count().
  Value slice(std::uint64_t begin, std::uint64_t end) const;

  friend bool operator==(const Value&, const Value&) = default;

 private:
  ValueType type_ = ValueType::kU32;
  bool is_array_ = false;
  std::uint64_t count_ = 1;
  std::string payload_;
};

class Metadata {
 public:
  using Entry = std::pair<std::string, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  const Value* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Replaces the key's value where it stands, or appends.
  void set(std::string_view key, Value value);
  void erase(std::string_view key);

  // Values that are not arrays; nothing if missing or of another kind.
  std::optional<std::uint64_t> unsigned_value(std::string_view key) const;
  std::optional<double> real_value(std::string_view key) const;
  std::optional<std::string_view> text_value(std::string_view key) const;

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace salvage::model
