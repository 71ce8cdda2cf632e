#pragma once

// Runs jobs in child processes, several at once: ggml aborts on its own asserts, and one bad
// fixture must not take the others with it. The parent never touches ggml, so a plain fork is safe.
// Thread rule: call it from a process that has one thread.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace salvage::conformance {

struct ChildResult {
  bool finished = false;  // Ended by itself with exit code 0.
  std::string output;     // What the job wrote, whole.
  std::string ending;     // "exit code 3", "signal 6 (Aborted)", "still running after 120 s"
};

struct ChildPoolOptions {
  std::size_t job_count = 0;
  std::size_t parallel = 2;
  int seconds_max = 300;  // A job that runs longer is killed.
};

// `work(index)` runs in a child; what it returns comes back as ChildResult::output. `done` runs in
// the parent, in the order in which jobs end.
void run_in_children(const ChildPoolOptions& options,
                     const std::function<std::string(std::size_t)>& work,
                     const std::function<void(std::size_t, const ChildResult&)>& done);

}  // namespace salvage::conformance
