#pragma once

// Logits of every position of a run, and their comparison: bit for bit first, a measure of the
// damage second.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace salvage::conformance {

struct Logits {
  std::size_t vocabulary_size = 0;
  std::vector<float> values;  // position x vocabulary_size
  std::size_t position_count() const {
    return vocabulary_size == 0 ? 0 : values.size() / vocabulary_size;
  }
};

struct Difference {
  std::size_t first_position = 0;
  std::size_t position_count = 0;  // positions that differ
  std::size_t argmax_count = 0;    // positions whose highest logit is another
  double nmse = 0;                 // mean squared difference / mean squared expected value
};

// Nothing if all bits are equal. Runs of unequal size differ everywhere.
std::optional<Difference> compare_bits(const Logits& expected, const Logits& actual);

// Why logits prove nothing ("not finite at position 3", "the same at every position"), or nothing.
std::optional<std::string> degenerate(const Logits& logits);

}  // namespace salvage::conformance
