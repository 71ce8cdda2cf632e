#include "app/format.h"

#include <array>
#include <cstddef>

#include <fmt/format.h>

namespace salvage::app {

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr std::array kUnits{"KB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_memory(std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1000 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string format_layers(LayerRange layers) {
  if (layers.count() == 0) return "-";
  return fmt::format("{}-{}", layers.begin, layers.end - 1);
}

std::string format_seconds(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1000) : fmt::format("{:.2f} s", seconds);
}

std::string format_rate(double tokens_per_second) {
  return fmt::format("{:.1f} tok/s", tokens_per_second);
}

}  // namespace salvage::app
