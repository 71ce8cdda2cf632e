#pragma once

// Progress on standard error for anything over two seconds. On a terminal one line that is
// rewritten at most ten times a second; elsewhere one line a tenth of the way, so that logs stay
// short. Nothing at all if `quiet`. Thread rule: any thread, one at a time is not required.

#include <string>

#include "base/clock.h"
#include "base/mutex.h"

namespace salvage::app {

class Progress {
 public:
  Progress(const Clock& clock, bool quiet);
  ~Progress();  // Clears the line.

  // `what` is a translated text; `fraction` is 0..1.
  void update(const std::string& what, double fraction) EXCLUDES(mutex_);
  void clear() EXCLUDES(mutex_);

 private:
  void draw(const std::string& what, double fraction) REQUIRES(mutex_);

  const Clock& clock_;
  const bool quiet_;
  const bool terminal_;
  const TimePoint started_;
  Mutex mutex_;
  TimePoint last_drawn_ GUARDED_BY(mutex_);
  std::string last_what_ GUARDED_BY(mutex_);
  int last_tenth_ GUARDED_BY(mutex_) = -1;
  bool line_open_ GUARDED_BY(mutex_) = false;
};

}  // namespace salvage::app
