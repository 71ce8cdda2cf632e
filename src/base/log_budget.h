#pragma once

// For log lines that strangers can cause: so many at once, then one a second, so that whoever
// knocks a thousand times a second fills nobody's disk. What was left out is counted, and told with
// the next line. Thread rule: none shared; under the owner's lock.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace salvage {

class LogBudget {
 public:
  static constexpr std::uint32_t kLinesAtOnce = 20;
  static constexpr Duration kLinePeriod = std::chrono::seconds(1);

  // Nothing: leave this line out. Else how many were left out since the last one.
  std::optional<std::uint64_t> take(TimePoint now) {
    // `paid_until_` runs ahead of the clock by one period for each line.
    paid_until_ = std::max(paid_until_, now);
    if (paid_until_ - now > (kLinesAtOnce - 1) * kLinePeriod) {
      ++left_out_;
      return std::nullopt;
    }
    paid_until_ += kLinePeriod;
    return std::exchange(left_out_, 0);
  }

 private:
  TimePoint paid_until_;
  std::uint64_t left_out_ = 0;
};

}  // namespace salvage
