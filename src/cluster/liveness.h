#pragma once

// Counts unanswered pings on one link. Counted and not timed: a process that was stopped itself
// sends no pings meanwhile, so it blames nobody when it wakes. Both ends of a node link use it.
// Pure; belongs to whoever owns the link.

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace salvage::cluster {

inline constexpr Duration kTickPeriod = std::chrono::seconds(1);
// One ping a tick, so a silent node is lost at the sixth tick: 6 s.
inline constexpr std::uint32_t kUnansweredMax = 5;

class Liveness {
 public:
  // The nonce of the ping to send now; none if the link is lost: kUnansweredMax are unanswered.
  std::optional<std::uint64_t> tick() {
    if (lost()) return std::nullopt;
    ++unanswered_;
    return ++nonce_;
  }
  // A ping that is sent for its own sake and does not count.
  std::uint64_t probe() { return ++nonce_; }
  // Any frame came: the other side lives.
  void heard() { unanswered_ = 0; }
  bool lost() const { return unanswered_ >= kUnansweredMax; }
  std::uint32_t unanswered() const { return unanswered_; }

 private:
  std::uint32_t unanswered_ = 0;
  std::uint64_t nonce_ = 0;
};

}  // namespace salvage::cluster
