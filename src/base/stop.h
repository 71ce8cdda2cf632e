#pragma once

// Cancelling and ending have types. StopSource/StopToken (the standard's) say "please stop"; a Gate
// says "nobody new comes in, and I wait until everybody inside has left". Every component ends in
// the same order: stop intake, drain or cancel, join.

#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"

namespace salvage {

using StopSource = std::stop_source;
using StopToken = std::stop_token;

// Thread rule: everything from any thread. Outlives all its passes.
class Gate {
 public:
  // Held while inside; leaves when destroyed.
  class Pass {
   public:
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->leave();
    }

   private:
    friend class Gate;
    explicit Pass(Gate* gate) : gate_(gate) {}
    Gate* gate_;
  };

  Gate() = default;
  ~Gate() {
    MutexLock lock(mutex_);
    CHECK(inside_ == 0);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Nothing once the gate is closed.
  std::optional<Pass> enter() {
    MutexLock lock(mutex_);
    if (closed_) return std::nullopt;
    ++inside_;
    return Pass(this);
  }

  // Lets nobody in any more and returns when the last one has left.
  void close() {
    MutexLock lock(mutex_);
    closed_ = true;
    while (inside_ > 0) empty_.wait(mutex_);
  }

  std::uint64_t inside() const {
    MutexLock lock(mutex_);
    return inside_;
  }

 private:
  void leave() {
    // Notified under the lock: close() may destroy the gate as soon as it can take the lock.
    MutexLock lock(mutex_);
    CHECK(inside_ > 0);
    if (--inside_ == 0) empty_.notify_all();
  }

  mutable Mutex mutex_;
  Condition empty_;
  std::uint64_t inside_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace salvage
