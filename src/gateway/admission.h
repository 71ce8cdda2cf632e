#pragma once

// How many answers may be under way or wait at once, on all models together. Who finds the line
// full is told so at once, instead of waiting for minutes for an end that it will not see. Thread
// rule: everything from any thread. Tickets may outlive it: the last event of an answer comes from
// the pipeline's thread, and may come when the server that made it is gone.

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace salvage::gateway {

class Admission {
  struct Line {
    explicit Line(std::size_t answers_max) : max(answers_max) {}
    const std::size_t max;
    Mutex mutex;
    std::size_t live GUARDED_BY(mutex) = 0;
  };

 public:
  // Held while an answer is waited for or made.
  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept : line_(std::move(other.line_)), count_(other.count_) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (!line_) return;
      MutexLock lock(line_->mutex);
      line_->live -= count_;
    }

   private:
    friend class Admission;
    Ticket(std::shared_ptr<Line> line, std::size_t count) : line_(std::move(line)), count_(count) {}
    std::shared_ptr<Line> line_;
    std::size_t count_;
  };

  explicit Admission(std::size_t answers_max) : line_(std::make_shared<Line>(answers_max)) {}

  // Nothing if so many more would be too many.
  std::optional<Ticket> enter(std::size_t answers) {
    MutexLock lock(line_->mutex);
    if (answers > line_->max - line_->live) return std::nullopt;
    line_->live += answers;
    return Ticket(line_, answers);
  }
  std::size_t live() const {
    MutexLock lock(line_->mutex);
    return line_->live;
  }
  std::size_t answers_max() const { return line_->max; }

 private:
  const std::shared_ptr<Line> line_;
};

}  // namespace salvage::gateway
