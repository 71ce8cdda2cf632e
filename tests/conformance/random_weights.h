#pragma once

// Random weights that can show an error. Upstream's own (all N(0, 0.01), norms included) make every
// layer nearly the identity, so that a wrong RoPE base moves the logits by 5e-14; these keep each
// layer's output as large as its input. Deterministic by tensor name and seed, on every machine.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace salvage::conformance {

// What a tensor's values look like: mean and standard deviation.
struct WeightShape {
  float mean = 0;
  float deviation = 1;
};

// `fan_in` is the length of a row, `dimension_count` how many dimensions are longer than 1.
WeightShape sane_weights(std::string_view name, std::int64_t fan_in, int dimension_count);

std::vector<float> random_values(std::string_view name, std::uint64_t seed, std::size_t count,
                                 WeightShape shape);

}  // namespace salvage::conformance
