#pragma once

// Keeps transfers of weights from slowing down answers: while stages of this machine compute,
// weights leave at a fraction of the rate that the link has shown, in small steps, so that a
// micro-batch never waits behind more than a few milliseconds of them; otherwise they are not held
// back at all. Thread rule: everything from any thread.

#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace salvage::agent {

class Pacer {
 public:
  explicit Pacer(const Clock& clock) : clock_(clock) {}

  // A stage of this machine has work right now.
  void stage_active() EXCLUDES(mutex_);
  // Returns when `bytes` may leave.
  void wait_for(std::uint64_t bytes) EXCLUDES(mutex_);
  void stop() EXCLUDES(mutex_);

 private:
  bool active() const REQUIRES(mutex_);

  const Clock& clock_;
  Mutex mutex_;
  Condition stopped_wake_;
  TimePoint last_active_ GUARDED_BY(mutex_){};
  TimePoint next_ GUARDED_BY(mutex_){};
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace salvage::agent
