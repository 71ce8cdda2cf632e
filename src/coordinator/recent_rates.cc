#include "coordinator/recent_rates.h"

#include <algorithm>
#include <chrono>

namespace salvage::coordinator {
namespace {

constexpr Duration kRatesWindow = std::chrono::seconds(10);
constexpr Duration kSamplePeriod = std::chrono::milliseconds(400);
// Stages report every half second: who has said nothing for so long is not there any more.
constexpr Duration kSampleOld = std::chrono::seconds(5);

double seconds_of(Duration time) {
  return std::chrono::duration<double>(time).count();
}

bool is_less(const Counted& a, const Counted& b) {
  return a.busy_us < b.busy_us || a.bytes_out < b.bytes_out ||
         a.out_busy_us.value_or(0) < b.out_busy_us.value_or(0);
}

double share(std::uint64_t from_us, std::uint64_t to_us, double seconds) {
  return std::min(1.0, static_cast<double>(to_us - from_us) / 1e6 / seconds);
}

}  // namespace

void RecentRates::add(TimePoint now, const Counted& counted) {
  if (!samples_.empty() && is_less(counted, samples_.back().counted)) samples_.clear();
  if (!samples_.empty() && now - samples_.back().time < kSamplePeriod) return;
  samples_.push_back({now, counted});
  // The first stays as the window's edge until the second one is as old.
  while (samples_.size() > 2 && now - samples_[1].time >= kRatesWindow) samples_.pop_front();
}

std::optional<RecentRates::Rates> RecentRates::at(TimePoint now) const {
  if (samples_.size() < 2 || now - samples_.back().time > kSampleOld) return std::nullopt;
  const Sample& first = samples_.front();
  const Sample& last = samples_.back();
  const double time = seconds_of(last.time - first.time);
  Rates rates;
  rates.busy = share(first.counted.busy_us, last.counted.busy_us, time);
  rates.bytes_out_per_second =
      static_cast<double>(last.counted.bytes_out - first.counted.bytes_out) / time;
  if (first.counted.out_busy_us && last.counted.out_busy_us) {
    rates.out_busy = share(*first.counted.out_busy_us, *last.counted.out_busy_us, time);
  }
  return rates;
}

}  // namespace salvage::coordinator
