#pragma once

// How many answers may be under way or wait at once, on all models together. Who finds the line
// full is told so at once, instead of waiting for minutes for an end that it will not see. Thread
// rule: everything from any thread. Outlives its tickets.

#include <cstddef>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace salvage::gateway {

class Admission {
 public:
  // Held while an answer is waited for or made.
  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)), count_(other.count_) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (admission_ != nullptr) admission_->leave(count_);
    }

   private:
    friend class Admission;
    Ticket(Admission* admission, std::size_t count) : admission_(admission), count_(count) {}
    Admission* admission_;
    std::size_t count_;
  };

  explicit Admission(std::size_t answers_max) : answers_max_(answers_max) {}

  // Nothing if so many more would be too many.
  std::optional<Ticket> enter(std::size_t answers) {
    MutexLock lock(mutex_);
    if (answers > answers_max_ - live_) return std::nullopt;
    live_ += answers;
    return Ticket(this, answers);
  }
  std::size_t live() const {
    MutexLock lock(mutex_);
    return live_;
  }
  std::size_t answers_max() const { return answers_max_; }

 private:
  void leave(std::size_t answers) {
    MutexLock lock(mutex_);
    live_ -= answers;
  }

  const std::size_t answers_max_;
  mutable Mutex mutex_;
  std::size_t live_ GUARDED_BY(mutex_) = 0;
};

}  // namespace salvage::gateway
