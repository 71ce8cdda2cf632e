#pragma once

// Keeps transfers of weights from slowing down answers: while stages of this machine compute,
// weights leave at a fraction of the rate that they have reached before, spread evenly by the
// system, so that a micro-batch finds the wire free; otherwise they are not held back at all.
// Thread rule: everything from any thread.

#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace salvage::agent {

class Pacer {
 public:
  explicit Pacer(const Clock& clock) : clock_(clock) {}

  // A stage of this machine has computed something just now.
  void stage_active() EXCLUDES(mutex_);
  // So many bytes of weights were handed over just now, while they were not held back.
  void sent(std::uint64_t bytes) EXCLUDES(mutex_);
  // Bytes a second at which weights may leave now; 0: as fast as they can.
  std::uint64_t rate() const EXCLUDES(mutex_);

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  TimePoint last_active_ GUARDED_BY(mutex_){};
  double best_ GUARDED_BY(mutex_) = 0;  // bytes a second
  // The present sample: bytes since `begin`, the last of them at `last`.
  TimePoint sample_begin_ GUARDED_BY(mutex_){};
  TimePoint sample_last_ GUARDED_BY(mutex_){};
  double sample_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace salvage::agent
