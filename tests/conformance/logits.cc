#include "logits.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace salvage::conformance {
namespace {

std::size_t argmax(const float* row, std::size_t count) {
  return static_cast<std::size_t>(std::max_element(row, row + count) - row);
}

}  // namespace

std::optional<Difference> compare_bits(const Logits& expected, const Logits& actual) {
  Difference difference;
  const std::size_t width = expected.vocabulary_size;
  if (expected.values.size() != actual.values.size() || width != actual.vocabulary_size) {
    difference.position_count = expected.position_count();
    difference.nmse = 1;
    return difference;
  }
  double squared_error = 0;
  double squared_value = 0;
  for (std::size_t position = 0; position < expected.position_count(); ++position) {
    const float* want = expected.values.data() + position * width;
    const float* have = actual.values.data() + position * width;
    for (std::size_t i = 0; i < width; ++i) {
      const double error = static_cast<double>(want[i]) - static_cast<double>(have[i]);
      squared_error += error * error;
      squared_value += static_cast<double>(want[i]) * static_cast<double>(want[i]);
    }
    if (std::memcmp(want, have, width * sizeof(float)) == 0) continue;
    if (difference.position_count++ == 0) difference.first_position = position;
    if (argmax(want, width) != argmax(have, width)) ++difference.argmax_count;
  }
  if (difference.position_count == 0) return std::nullopt;
  difference.nmse = squared_error / squared_value;
  return difference;
}

std::optional<std::string> degenerate(const Logits& logits) {
  const std::size_t width = logits.vocabulary_size;
  bool all_same = true;
  for (std::size_t i = 0; i < logits.values.size(); ++i) {
    if (!std::isfinite(logits.values[i])) {
      return fmt::format("logits not finite at position {}", i / width);
    }
    all_same = all_same && logits.values[i] == logits.values[i % width];
  }
  if (all_same) return "logits are the same at every position";
  return std::nullopt;
}

}  // namespace salvage::conformance
