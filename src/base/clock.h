#pragma once

// Time as the program sees it: monotonic, injected, so that tests and the simulator move it by
// hand. Deadlines are absolute points on this clock and travel with the work they bound;
// kNoDeadline waits for ever. Wall-clock time exists only in log lines (base/log.h). Thread rule:
// now() may be called from any thread at once.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace salvage {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

inline constexpr TimePoint kNoDeadline = TimePoint::max();

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

// Stands still until told to move; starts at the epoch of the steady clock.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(ticks_.load())); }
  void advance(Duration by) { ticks_.fetch_add(by.count()); }

 private:
  std::atomic<Duration::rep> ticks_{0};
};

// now + wait without overflow, so that "for ever" stays for ever.
inline TimePoint deadline_after(TimePoint now, Duration wait) {
  return wait >= kNoDeadline - now ? kNoDeadline : now + wait;
}

// A moment as a number, for atomics. Never 0, which stands for "none" there.
inline std::int64_t clock_us(TimePoint now) {
  return std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() + 1;
}

inline std::int64_t microseconds_between(TimePoint begin, TimePoint end) {
  return std::chrono::duration_cast<std::chrono::microseconds>(end - begin).count();
}

inline double seconds_between(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace salvage
