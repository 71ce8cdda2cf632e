#include "pipeline/stop_filter.h"

#include <algorithm>
#include <utility>

namespace salvage::pipeline {

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return "";
  pending_ += text;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t place = stop.empty() ? std::string::npos : pending_.find(stop);
    if (place >= first) continue;
    first = place;
    found_ = stop;
  }
  stopped_ = first != std::string::npos;
  const std::size_t shown = stopped_ ? first : pending_.size() - held_back();
  std::string out = pending_.substr(0, shown);
  pending_.erase(0, stopped_ ? pending_.size() : shown);
  return out;
}

std::string StopFilter::finish() {
  return std::exchange(pending_, {});
}

// Bytes at the end of the pending text with which some stop string begins.
std::size_t StopFilter::held_back() const {
  std::size_t most = 0;
  for (const std::string& stop : stops_) {
    std::size_t length = std::min(pending_.size(), stop.empty() ? 0 : stop.size() - 1);
    while (length > most &&
           pending_.compare(pending_.size() - length, length, stop, 0, length) != 0) {
      --length;
    }
    most = std::max(most, length);
  }
  return most;
}

}  // namespace salvage::pipeline
