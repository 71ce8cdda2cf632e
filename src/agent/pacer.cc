#include "agent/pacer.h"

#include <algorithm>

namespace salvage::agent {
namespace {

using std::chrono::milliseconds;

// A stage that computed within this time is answering somebody.
constexpr auto kActiveTime = milliseconds(500);
// Weights a second beside answers: a third of a 100 Mbit/s link, which is the slowest wire that
// people still have.
constexpr double kBytesPerSecond = 4e6;
// Behind a pause the first bytes go out at once, not those of the whole pause.
constexpr auto kBurst = milliseconds(10);

}  // namespace

void Pacer::stage_active() {
  MutexLock lock(mutex_);
  last_active_ = clock_.now();
}

bool Pacer::active() const {
  return last_active_ != TimePoint{} && clock_.now() - last_active_ < kActiveTime;
}

void Pacer::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  stopped_wake_.notify_all();
}

void Pacer::wait_for(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  if (!active()) return;
  const TimePoint now = clock_.now();
  const TimePoint turn = std::max(next_, now - kBurst);
  next_ = turn + std::chrono::duration_cast<Duration>(
                     std::chrono::duration<double>(static_cast<double>(bytes) / kBytesPerSecond));
  while (!stopped_ && active() && clock_.now() < turn) {
    (void)stopped_wake_.wait_until(mutex_, std::min(turn, clock_.now() + kActiveTime));
  }
}

}  // namespace salvage::agent
