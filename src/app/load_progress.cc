#include "app/load_progress.h"

#include <algorithm>
#include <chrono>
#include <iostream>

#include <fmt/format.h>

#include "base/terminal.h"

namespace salvage::app {
namespace {

constexpr auto kRedrawTime = std::chrono::milliseconds(100);
constexpr auto kLineTime = std::chrono::seconds(10);
constexpr double kSteps = 20;  // of five percent

std::string phase_of(const LoadView& view) {
  return view.state.empty() ? view.what + view.name : view.state + view.reason;
}

int step_of(const LoadView& view) {
  return static_cast<int>(view.total_fraction() * kSteps);
}

}  // namespace

LoadProgress::LoadProgress(const Clock& clock, Form form)
    : clock_(clock), form_(form), terminal_(is_terminal(Stream::kError)) {}

bool LoadProgress::due(const LoadView& view, TimePoint now) const {
  if (!any_) return true;
  if (form_ == Form::kAuto && terminal_) return now - last_ >= kRedrawTime;
  return now - last_ >= kLineTime || step_of(view) != last_step_ || phase_of(view) != last_phase_;
}

// A stage reads its weights, then checks itself, and counts both from nothing.
void LoadProgress::never_backwards(LoadView& view) {
  for (LoadLine& line : view.lines) {
    if (line.state != "loading") {
      highest_.erase(line.node);
      continue;
    }
    double& highest = highest_[line.node];
    highest = std::max(highest, line.load_fraction);
    line.load_fraction = highest;
  }
}

void LoadProgress::update(LoadView view) {
  deploying_ = !view.state.empty();
  if (form_ == Form::kQuiet) return;
  never_backwards(view);
  const TimePoint now = clock_.now();
  rate_.add(now, view.bytes_done());
  if (!due(view, now)) return;
  any_ = true;
  last_ = now;
  last_step_ = step_of(view);
  last_phase_ = phase_of(view);
  draw(view);
}

void LoadProgress::draw(const LoadView& view) {
  if (form_ == Form::kJson) {
    std::cout << status_line(view, rate_.bytes_per_second()) << std::endl;
    return;
  }
  const auto lines = bar_lines(view, rate_.bytes_per_second());
  if (!terminal_) {
    std::cerr << lines.back() << std::endl;
    return;
  }
  clear();
  for (const std::string& line : lines) std::cerr << line << '\n';
  std::cerr << std::flush;
  lines_drawn_ = lines.size();
}

void LoadProgress::clear() {
  for (; lines_drawn_ > 0; --lines_drawn_) std::cerr << "\x1b[1A\x1b[2K";
}

void LoadProgress::finish() {
  clear();
  std::cerr << std::flush;
}

}  // namespace salvage::app
