#pragma once

// Waiting that a stop request ends at once.

#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "base/stop.h"

namespace salvage::app {

// False if it was ended by `stop`.
inline bool pause_for(Duration time, const StopToken& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace salvage::app
