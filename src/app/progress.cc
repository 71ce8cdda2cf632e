#include "app/progress.h"

#include <algorithm>
#include <chrono>
#include <iostream>

#include <fmt/format.h>

#include "app/words.h"
#include "base/terminal.h"

namespace salvage::app {
namespace {

constexpr auto kQuietTime = std::chrono::milliseconds(700);  // short work shows nothing
constexpr auto kRedrawTime = std::chrono::milliseconds(100);
constexpr std::size_t kBarColumns = 24;
constexpr std::size_t kTextColumns = 36;

std::string bar(double fraction) {
  const auto full = static_cast<std::size_t>(fraction * static_cast<double>(kBarColumns));
  return std::string(full, '#') + std::string(kBarColumns - full, '.');
}

}  // namespace

Progress::Progress(const Clock& clock, bool quiet)
    : clock_(clock),
      quiet_(quiet),
      terminal_(is_terminal(Stream::kError)),
      started_(clock.now()),
      last_drawn_(started_) {}

Progress::~Progress() {
  clear();
}

void Progress::update(const std::string& what, double fraction) {
  const TimePoint now = clock_.now();
  MutexLock lock(mutex_);
  if (quiet_ || now - started_ < kQuietTime) return;
  const double bounded = std::clamp(fraction, 0.0, 1.0);
  const int tenth = static_cast<int>(bounded * 10);
  const bool news = what != last_what_ || tenth != last_tenth_;
  if (terminal_ ? (now - last_drawn_ < kRedrawTime && !news) : !news) return;
  last_drawn_ = now;
  last_what_ = what;
  last_tenth_ = tenth;
  draw(what, bounded);
}

void Progress::draw(const std::string& what, double fraction) {
  const int percent = static_cast<int>(fraction * 100);
  if (terminal_) {
    std::cerr << fmt::format("\r{} [{}] {:3}%", padded(what, kTextColumns), bar(fraction), percent)
              << std::flush;
    line_open_ = true;
  } else {
    std::cerr << fmt::format("{} {}%", what, percent) << std::endl;
  }
}

void Progress::clear() {
  MutexLock lock(mutex_);
  if (line_open_) std::cerr << "\r\x1b[2K" << std::flush;
  line_open_ = false;
}

}  // namespace salvage::app
