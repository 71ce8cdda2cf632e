#pragma once

// How often values fell below fixed bounds, as Prometheus counts them. A value; no thread of its
// own.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace salvage::metrics {

// Seconds. Old machines take minutes for what others do in moments, so the scale is a long one.
inline constexpr std::array kWaitBounds = {0.05, 0.1,  0.25, 0.5,   1.0,   2.5,   5.0,   10.0,
                                           20.0, 40.0, 60.0, 120.0, 300.0, 600.0, 1800.0};
inline constexpr std::array kTokenBounds = {0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25,
                                            0.5,   1.0,  2.0,  4.0,  8.0,  16.0};

class Histogram {
 public:
  // The bounds rise, and outlive it.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size()) {}

  void add(double value) {
    sum_ += value;
    ++count_;
    const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    if (bound != bounds_.end()) ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
  }

  std::span<const double> bounds() const { return bounds_; }
  // Values at or below bound `index`.
  std::uint64_t at_most(std::size_t index) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i <= index; ++i) sum += counts_[i];
    return sum;
  }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;  // between a bound and the one before it
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace salvage::metrics
