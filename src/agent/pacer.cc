#include "agent/pacer.h"

#include <algorithm>
#include <chrono>

namespace salvage::agent {
namespace {

// A stage that computed within this time is answering somebody: its next step may come any moment.
constexpr auto kActiveTime = std::chrono::milliseconds(1500);
// Of the best rate that was seen. The rest of the wire is the answers': a hidden state of 16 KiB
// then waits for at most one packet of weights.
constexpr double kShare = 0.3;
// Where nothing was seen yet: a third of a 100 Mbit/s link, the slowest wire that people still
// have.
constexpr double kUnknownRate = 4e6;
// A sample is as long as this, without a longer pause than that in it: less would measure the
// socket's buffer and not the wire.
constexpr auto kSampleTime = std::chrono::seconds(1);
constexpr auto kPauseMax = std::chrono::milliseconds(300);
// What was seen once is forgotten slowly: a cable may have been changed for the worse.
constexpr double kForget = 0.98;

}  // namespace

void Pacer::stage_active() {
  MutexLock lock(mutex_);
  last_active_ = clock_.now();
}

void Pacer::sent(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  const TimePoint now = clock_.now();
  if (sample_last_ == TimePoint{} || now - sample_last_ > kPauseMax) {
    // These bytes fill the buffers of an idle link; the ones behind them show its rate.
    sample_begin_ = sample_last_ = now;
    sample_bytes_ = 0;
    return;
  }
  sample_last_ = now;
  sample_bytes_ += static_cast<double>(bytes);
  if (now - sample_begin_ < kSampleTime) return;
  const double seconds = seconds_between(sample_begin_, now);
  best_ = std::max(best_ * kForget, sample_bytes_ / seconds);
  sample_begin_ = now;
  sample_bytes_ = 0;
}

std::uint64_t Pacer::rate() const {
  MutexLock lock(mutex_);
  const bool active = last_active_ != TimePoint{} && clock_.now() - last_active_ < kActiveTime;
  if (!active) return 0;
  return static_cast<std::uint64_t>(best_ == 0 ? kUnknownRate : best_ * kShare);
}

}  // namespace salvage::agent
