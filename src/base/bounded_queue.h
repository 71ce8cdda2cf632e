#pragma once

// The queue between two threads. Its capacity is named by the caller and never exceeded: a full
// queue blocks its producers, which is how backpressure travels. close() wakes everybody, producers
// too; what is already in the queue can still be taken out. Thread rule: everything from any
// thread. Outlives the threads that use it.

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace salvage {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) { CHECK(capacity > 0); }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // Waits for room. False, and `value` is lost, once the queue is closed or the deadline passed.
  bool push(T value, TimePoint deadline = kNoDeadline) {
    {
      MutexLock lock(mutex_);
      while (!closed_ && items_.size() >= capacity_) {
        if (!has_room_.wait_until(mutex_, deadline) && items_.size() >= capacity_) return false;
      }
      if (closed_) return false;
      items_.push_back(std::move(value));
    }
    has_item_.notify_one();
    return true;
  }

  // False, and `value` untouched, if there is no room right now.
  bool try_push(T& value) {
    {
      MutexLock lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(value));
    }
    has_item_.notify_one();
    return true;
  }

  // Waits for an item. Nothing once the queue is closed and empty, or the deadline passed.
  std::optional<T> pop(TimePoint deadline = kNoDeadline) {
    std::optional<T> item;
    {
      MutexLock lock(mutex_);
      while (!closed_ && items_.empty()) {
        if (!has_item_.wait_until(mutex_, deadline) && items_.empty()) return item;
      }
      item = take();
    }
    has_room_.notify_one();
    return item;
  }

  std::optional<T> try_pop() {
    std::optional<T> item;
    {
      MutexLock lock(mutex_);
      item = take();
    }
    has_room_.notify_one();
    return item;
  }

  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    has_item_.notify_all();
    has_room_.notify_all();
  }

  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }
  std::size_t size() const {
    MutexLock lock(mutex_);
    return items_.size();
  }
  std::size_t capacity() const { return capacity_; }

 private:
  std::optional<T> take() REQUIRES(mutex_) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  Condition has_item_;
  Condition has_room_;
  std::deque<T> items_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace salvage
