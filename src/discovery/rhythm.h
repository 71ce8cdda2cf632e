#pragma once

// When to speak and whom to hear, as pure rules: time comes from the caller, nothing waits. What
// anybody on the LAN may send costs a bounded amount of work, whatever the rate.
// Thread rule: each object belongs to one thread.

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace salvage::discovery {

inline constexpr Duration kBeaconInterval = std::chrono::seconds(5);
// Answers to queries are at least so far apart: a flood of queries must not become one of beacons.
inline constexpr Duration kAnswerInterval = std::chrono::milliseconds(500);
inline constexpr Duration kQueryInterval = std::chrono::seconds(1);
// Checking one beacon takes some 0.2 ms on an old machine: 20 a second are 0.4 % of a core.
inline constexpr int kChecksPerSecond = 20;

// The coordinator's: a beacon every five seconds, and soon after a query.
class BeaconRhythm {
 public:
  // Is it time? Then one counts as sent.
  bool due(TimePoint now) {
    if (now < next()) return false;
    last_ = now;
    asked_ = false;
    return true;
  }
  TimePoint next() const {
    if (!last_) return TimePoint::min();
    return *last_ + (asked_ ? kAnswerInterval : kBeaconInterval);
  }
  void on_query() { asked_ = true; }

 private:
  std::optional<TimePoint> last_;
  bool asked_ = false;
};

// The member's: which beacons are worth the price of checking a signature.
class BeaconFilter {
 public:
  // False: drop it unseen, for there were too many lately.
  bool affordable(TimePoint now) {
    if (!window_begin_ || now - *window_begin_ >= std::chrono::seconds(1)) {
      window_begin_ = now;
      checked_ = 0;
    }
    return checked_++ < kChecksPerSecond;
  }
  // False: the same or an older one of this boot was taken already. Only for beacons that were
  // checked, or anybody could silence the true one by a high number.
  bool is_new(std::uint64_t boot, std::uint64_t sequence) {
    if (last_ && last_->first == boot && sequence <= last_->second) return false;
    last_ = {boot, sequence};
    return true;
  }

 private:
  std::optional<TimePoint> window_begin_;
  int checked_ = 0;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> last_;
};

}  // namespace salvage::discovery
