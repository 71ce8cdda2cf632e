#pragma once

// How long something was the case, in all, with the time for which it is the case right now: what
// is asked every few seconds must grow while a step takes a minute. One thread begins and ends, any
// thread reads; no lock.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace salvage::pipeline {

class RunningTime {
 public:
  void begin(TimePoint now) { since_us_ = clock_us(now); }
  void end(TimePoint now) {
    const std::int64_t since = since_us_.exchange(0);
    if (since != 0) done_us_ += static_cast<std::uint64_t>(clock_us(now) - since);
  }

  // Microseconds since the start or the last reset; never less than it was before, unless reset.
  std::uint64_t us(TimePoint now) {
    std::uint64_t sum = done_us_;
    const std::int64_t since = since_us_;
    if (since != 0 && clock_us(now) > since)
      sum += static_cast<std::uint64_t>(clock_us(now) - since);
    // The end may come between the two reads above.
    sum = std::max(sum, told_us_.load());
    told_us_ = sum;
    return sum;
  }
  // Of what has ended; what runs goes on and counts as a whole when it ends.
  std::uint64_t reset() {
    told_us_ = 0;
    return done_us_.exchange(0);
  }

 private:
  std::atomic<std::uint64_t> done_us_{0};
  std::atomic<std::int64_t> since_us_{0};  // on the clock; 0: not now
  std::atomic<std::uint64_t> told_us_{0};
};

}  // namespace salvage::pipeline
