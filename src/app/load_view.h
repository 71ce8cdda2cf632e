#pragma once

// A load on its way, as bars and as lines for programs. Pure: time comes in.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace salvage::app {

// One stage on its machine.
struct LoadLine {
  std::string node;
  std::string layers;  // "0-9"
  std::string state;   // as JSON names it: "fetching", ...
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  double load_fraction = 0;

  // Half of the way is having the weights, the other half loading them.
  double fraction() const;
};

struct LoadView {
  std::string what;  // "hashing", "announcing", "loading", "verifying"
  std::string name;
  std::string state;    // of the deployment; empty while it is hashed
  std::string reason;   // what it waits for
  double fraction = 0;  // of hashing
  std::vector<LoadLine> lines;

  double total_fraction() const;
  std::uint64_t bytes_done() const;
  std::uint64_t bytes_total() const;
};

// From the value of "progress" (admin/admin_routes.h). `corrupt` if it has another form.
Result<LoadView> parse_load_view(std::string_view json);

// Bytes a second over the last ten seconds: what lay there before the start is no speed.
class TransferRate {
 public:
  void add(TimePoint now, std::uint64_t bytes);
  double bytes_per_second() const;

 private:
  std::deque<std::pair<TimePoint, std::uint64_t>> samples_;
};

// Seconds that the rest will take; nothing while nobody can know.
std::optional<double> seconds_left(const LoadView& view, double bytes_per_second);
// "52 s", "3 min 5 s", "1 h 4 min"; "99 h+".
std::string format_left(double seconds);

// A line a stage and, if there are several, one for all; in the language of people.
std::vector<std::string> bar_lines(const LoadView& view, double bytes_per_second);
// On one line: {"message_type":"status", ...}
std::string status_line(const LoadView& view, double bytes_per_second);

}  // namespace salvage::app
