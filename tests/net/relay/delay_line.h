#pragma once

// One direction of a slow link. Frames go in with the time at which they came, and come out when
// their delay has passed, in the order in which they came, as on a real line: jitter makes a frame
// late, never overtake. Pure: time comes from the caller, chance from a seed. Bounded: what does
// not fit any more is dropped and counted, as a switch does. Thread rule: one thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/random.h"

namespace salvage::relay {

struct DelayOptions {
  Duration delay{};
  Duration jitter{};  // on top of the delay, evenly between nothing and this
  std::uint64_t seed = 1;
  std::size_t bytes_max = 0;  // of frames under way, with what keeping them costs
};

struct DelayCounts {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
  std::uint64_t dropped = 0;
};

class DelayLine {
 public:
  // What one frame under way costs beside its bytes: 2 allocations and its due time.
  static constexpr std::size_t kFrameOverheadBytes = 64;

  explicit DelayLine(const DelayOptions& options) : options_(options), random_(options.seed) {}

  // False if it was dropped.
  bool push(std::span<const std::byte> frame, TimePoint now);

  // When the next frame comes out; nothing if none is under way.
  std::optional<TimePoint> due() const;

  // The next frame if its time has come; valid until pop().
  std::optional<std::span<const std::byte>> front(TimePoint now) const;
  void pop();

  const DelayCounts& counts() const { return counts_; }

 private:
  struct Waiting {
    TimePoint due;
    std::vector<std::byte> frame;
  };
  const DelayOptions options_;
  Random random_;
  std::deque<Waiting> waiting_;
  std::size_t bytes_ = 0;
  DelayCounts counts_;
};

}  // namespace salvage::relay
