#pragma once

// Little-endian numbers in byte ranges, for the fixed layouts. The wire is little endian and so is
// every machine that we build for, which lets whole lists move with one memcpy.
// A Reader hands out only bytes that are there: a short body yields `false`, never a read past it.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace salvage::wire {

static_assert(std::endian::native == std::endian::little,
              "a big-endian machine needs byte swaps in wire/bytes.h");

template <typename Number>
void store(std::byte* at, Number number) {
  static_assert(std::is_arithmetic_v<Number>);
  std::memcpy(at, &number, sizeof(Number));
}

template <typename Number>
Number load(const std::byte* at) {
  static_assert(std::is_arithmetic_v<Number>);
  Number number;
  std::memcpy(&number, at, sizeof(Number));
  return number;
}

// Writes into a body that was resized to its final size first.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : left_(out) {}
  ~Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  template <typename Number>
  void number(Number value) {
    store(take(sizeof(Number)), value);
  }
  // A list of plain values whose layout in memory is that on the wire.
  template <typename Value>
  void list(const std::vector<Value>& values) {
    static_assert(std::is_trivially_copyable_v<Value>);
    if (values.empty()) return;
    std::memcpy(take(values.size() * sizeof(Value)), values.data(), values.size() * sizeof(Value));
  }
  bool full() const { return left_.empty(); }

 private:
  std::byte* take(std::size_t count) {
    CHECK(count <= left_.size());
    std::byte* at = left_.data();
    left_ = left_.subspan(count);
    return at;
  }
  std::span<std::byte> left_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename Number>
  [[nodiscard]] bool number(Number& value) {
    if (left_.size() < sizeof(Number)) return false;
    value = load<Number>(left_.data());
    left_ = left_.subspan(sizeof(Number));
    return true;
  }
  // Checks that the bytes are there before it makes room for them.
  template <typename Value>
  [[nodiscard]] bool list(std::vector<Value>& values, std::uint64_t count) {
    static_assert(std::is_trivially_copyable_v<Value>);
    if (count > left_.size() / sizeof(Value)) return false;
    values.resize(static_cast<std::size_t>(count));
    if (count == 0) return true;
    std::memcpy(values.data(), left_.data(), values.size() * sizeof(Value));
    left_ = left_.subspan(values.size() * sizeof(Value));
    return true;
  }
  [[nodiscard]] bool skip(std::size_t count) {
    if (count > left_.size()) return false;
    left_ = left_.subspan(count);
    return true;
  }
  bool done() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
};

}  // namespace salvage::wire
