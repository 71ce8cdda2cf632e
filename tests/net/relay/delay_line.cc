#include "relay/delay_line.h"

#include <algorithm>

#include "base/check.h"

namespace salvage::relay {

bool DelayLine::push(std::span<const std::byte> frame, TimePoint now) {
  const std::size_t cost = frame.size() + kFrameOverheadBytes;
  if (cost > options_.bytes_max - bytes_) {
    ++counts_.dropped;
    return false;
  }
  TimePoint due = now + options_.delay;
  if (options_.jitter > Duration::zero()) {
    const auto most = static_cast<std::uint64_t>(options_.jitter.count()) + 1;
    due += Duration(static_cast<Duration::rep>(random_.below(most)));
  }
  if (!waiting_.empty()) due = std::max(due, waiting_.back().due);
  waiting_.push_back({due, {frame.begin(), frame.end()}});
  bytes_ += cost;
  return true;
}

std::optional<TimePoint> DelayLine::due() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().due;
}

std::optional<std::span<const std::byte>> DelayLine::front(TimePoint now) const {
  if (waiting_.empty() || waiting_.front().due > now) return std::nullopt;
  return std::span<const std::byte>(waiting_.front().frame);
}

void DelayLine::pop() {
  CHECK(!waiting_.empty());
  const std::size_t bytes = waiting_.front().frame.size();
  bytes_ -= bytes + kFrameOverheadBytes;
  ++counts_.frames;
  counts_.bytes += bytes;
  waiting_.pop_front();
}

}  // namespace salvage::relay
