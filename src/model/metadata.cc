#include "model/metadata.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace salvage::model {
namespace {

static_assert(std::endian::native == std::endian::little, "payloads are read as the file has them");

template <typename T>
void append_payload(std::string& payload, T value) {
  payload.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_payload_text(std::string& payload, std::string_view text) {
  append_payload(payload, std::uint64_t{text.size()});
  payload.append(text);
}

template <typename T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::optional<std::uint64_t> not_negative(std::int64_t value) {
  if (value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

// Where string `count` of a payload begins, counted from 0.
std::size_t text_offset(const std::string& payload, std::uint64_t count) {
  std::size_t offset = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    offset += sizeof(std::uint64_t) + load<std::uint64_t>(payload.data() + offset);
  }
  return offset;
}

}  // namespace

std::uint32_t value_type_bytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

Value Value::from_file(ValueType type, bool is_array, std::uint64_t count, std::string payload) {
  Value value;
  value.type_ = type;
  value.is_array_ = is_array;
  value.count_ = count;
  value.payload_ = std::move(payload);
  return value;
}

Value Value::u32(std::uint32_t value) {
  std::string payload;
  append_payload(payload, value);
  return from_file(ValueType::kU32, false, 1, std::move(payload));
}

Value Value::f32(float value) {
  std::string payload;
  append_payload(payload, value);
  return from_file(ValueType::kF32, false, 1, std::move(payload));
}

Value Value::boolean(bool value) {
  return from_file(ValueType::kBool, false, 1, std::string(1, value ? '\1' : '\0'));
}

Value Value::string(std::string_view value) {
  std::string payload;
  append_payload_text(payload, value);
  return from_file(ValueType::kString, false, 1, std::move(payload));
}

Value Value::u32_array(const std::vector<std::uint32_t>& values) {
  std::string payload;
  for (const std::uint32_t value : values) append_payload(payload, value);
  return from_file(ValueType::kU32, true, values.size(), std::move(payload));
}

Value Value::f32_array(const std::vector<float>& values) {
  std::string payload;
  for (const float value : values) append_payload(payload, value);
  return from_file(ValueType::kF32, true, values.size(), std::move(payload));
}

Value Value::bool_array(const std::vector<bool>& values) {
  std::string payload;
  for (const bool value : values) payload.push_back(value ? '\1' : '\0');
  return from_file(ValueType::kBool, true, values.size(), std::move(payload));
}

Value Value::string_array(const std::vector<std::string>& values) {
  std::string payload;
  for (const std::string& value : values) append_payload_text(payload, value);
  return from_file(ValueType::kString, true, values.size(), std::move(payload));
}

std::optional<std::uint64_t> Value::unsigned_at(std::uint64_t index) const {
  const std::uint32_t width = value_type_bytes(type_);
  if (index >= count_ || width == 0) return std::nullopt;
  const char* const from = payload_.data() + index * width;
  switch (type_) {
    case ValueType::kU8:
    case ValueType::kBool:
      return load<std::uint8_t>(from);
    case ValueType::kU16:
      return load<std::uint16_t>(from);
    case ValueType::kU32:
      return load<std::uint32_t>(from);
    case ValueType::kU64:
      return load<std::uint64_t>(from);
    case ValueType::kI8:
      return not_negative(load<std::int8_t>(from));
    case ValueType::kI16:
      return not_negative(load<std::int16_t>(from));
    case ValueType::kI32:
      return not_negative(load<std::int32_t>(from));
    case ValueType::kI64:
      return not_negative(load<std::int64_t>(from));
    default:
      return std::nullopt;
  }
}

std::optional<double> Value::real_at(std::uint64_t index) const {
  const std::uint32_t width = value_type_bytes(type_);
  if (index >= count_ || width == 0) return std::nullopt;
  const char* const from = payload_.data() + index * width;
  if (type_ == ValueType::kF32) return load<float>(from);
  if (type_ == ValueType::kF64) return load<double>(from);
  return std::nullopt;
}

std::optional<std::string_view> Value::text() const {
  if (type_ != ValueType::kString || is_array_) return std::nullopt;
  return std::string_view(payload_).substr(sizeof(std::uint64_t));
}

std::vector<std::string_view> Value::texts() const {
  std::vector<std::string_view> result;
  if (type_ != ValueType::kString || !is_array_) return result;
  result.reserve(count_);
  std::string_view rest = payload_;
  for (std::uint64_t i = 0; i < count_; ++i) {
    const auto length = load<std::uint64_t>(rest.data());
    result.push_back(rest.substr(sizeof length, length));
    rest.remove_prefix(sizeof length + length);
  }
  return result;
}

Value Value::slice(std::uint64_t begin, std::uint64_t end) const {
  CHECK(is_array_ && begin <= end && end <= count_);
  const std::uint32_t width = value_type_bytes(type_);
  const bool texts = type_ == ValueType::kString;
  const std::size_t from = texts ? text_offset(payload_, begin) : begin * width;
  const std::size_t to = texts ? text_offset(payload_, end) : end * width;
  return from_file(type_, true, end - begin, payload_.substr(from, to - from));
}

const Value* Metadata::find(std::string_view key) const {
  const auto found = index_.find(std::string(key));
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

void Metadata::set(std::string_view key, Value value) {
  const auto [place, added] = index_.try_emplace(std::string(key), entries_.size());
  if (added) {
    entries_.emplace_back(std::string(key), std::move(value));
  } else {
    entries_[place->second].second = std::move(value);
  }
}

void Metadata::erase(std::string_view key) {
  const auto found = index_.find(std::string(key));
  if (found == index_.end()) return;
  const std::size_t position = found->second;
  index_.erase(found);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(position));
  for (auto& [name, place] : index_) {
    if (place > position) --place;
  }
}

std::optional<std::uint64_t> Metadata::unsigned_value(std::string_view key) const {
  const Value* const value = find(key);
  if (value == nullptr || value->is_array()) return std::nullopt;
  return value->unsigned_at(0);
}

std::optional<double> Metadata::real_value(std::string_view key) const {
  const Value* const value = find(key);
  if (value == nullptr || value->is_array()) return std::nullopt;
  return value->real_at(0);
}

std::optional<std::string_view> Metadata::text_value(std::string_view key) const {
  const Value* const value = find(key);
  if (value == nullptr) return std::nullopt;
  return value->text();
}

}  // namespace salvage::model
