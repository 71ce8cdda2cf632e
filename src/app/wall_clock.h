#pragma once

// What day it is, for what is kept or shown to people. Deadlines and durations come from a Clock.

#include <chrono>
#include <cstdint>

namespace salvage::app {

// Milliseconds since 1970.
inline std::int64_t wall_clock_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace salvage::app
