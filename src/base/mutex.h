#pragma once

// std::mutex and std::condition_variable with the annotations that clang's -Wthread-safety needs
// (the preset `clang` turns it into an error). A member guarded by a mutex says so:
// GUARDED_BY(mutex_).

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

#if defined(__clang__)
#define SALVAGE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define SALVAGE_THREAD_ATTRIBUTE(x)
#endif
#define GUARDED_BY(x) SALVAGE_THREAD_ATTRIBUTE(guarded_by(x))
#define REQUIRES(...) SALVAGE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) SALVAGE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace salvage {

class SALVAGE_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() SALVAGE_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() SALVAGE_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

class SALVAGE_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SALVAGE_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() SALVAGE_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits may wake for nothing: call them in a loop over the condition itself.
class Condition {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False once the deadline has passed.
  bool wait_until(Mutex& mutex, TimePoint deadline) REQUIRES(mutex) {
    if (deadline == kNoDeadline) {
      wait(mutex);
      return true;
    }
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace salvage
