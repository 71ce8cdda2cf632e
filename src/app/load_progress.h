#pragma once

// Shows a load on its way: on a terminal a bar a machine and one for all, redrawn at most ten times
// a second; elsewhere a line every ten seconds or five percent; for programs one JSON object a
// line. Bars go to standard error, JSON to standard output. One thread.

#include <map>
#include <string>

#include "app/load_view.h"
#include "base/clock.h"

namespace salvage::app {

class LoadProgress {
 public:
  enum class Form { kAuto, kJson, kQuiet };
  LoadProgress(const Clock& clock, Form form);
  ~LoadProgress() { finish(); }
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

  void update(LoadView view);
  // The last report was of a deployment, which goes on whether somebody listens or not.
  bool deploying() const { return deploying_; }
  // Takes the bars away.
  void finish();

 private:
  void never_backwards(LoadView& view);
  void draw(const LoadView& view);
  void clear();
  bool due(const LoadView& view, TimePoint now) const;

  const Clock& clock_;
  const Form form_;
  const bool terminal_;
  TransferRate rate_;
  std::map<std::string, double> highest_;  // how far a machine's load came
  TimePoint last_{};
  std::string last_phase_;
  int last_step_ = -1;  // of five percent
  bool any_ = false;
  bool deploying_ = false;
  std::size_t lines_drawn_ = 0;
};

}  // namespace salvage::app
