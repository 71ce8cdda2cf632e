#pragma once

// Rates of the last ten seconds, from counters that only grow: "how busy is it" is asked about now,
// and a share of all the time since a model was loaded says nothing after a night. Pure; one
// thread.

#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"

namespace salvage::coordinator {

// As counted at one moment; what one user of this doesn't count stays 0 or unset.
struct Counted {
  std::uint64_t busy_us = 0;  // computing
  std::uint64_t bytes_out = 0;
  std::optional<std::uint64_t> out_busy_us;  // something was under way
};

class RecentRates {
 public:
  // Counters that have become smaller count anew. Samples that come faster than two a second are
  // left out, so that the number of those kept is bounded.
  void add(TimePoint now, const Counted& counted);

  struct Rates {
    double busy = 0;  // share of the time, 0 to 1
    double bytes_out_per_second = 0;
    std::optional<double> out_busy;  // share of the time, 0 to 1
  };
  // Nothing before two samples, or after the last one has become old.
  std::optional<Rates> at(TimePoint now) const;

 private:
  struct Sample {
    TimePoint time;
    Counted counted;
  };
  std::deque<Sample> samples_;  // the first lies a little before the window
};

}  // namespace salvage::coordinator
