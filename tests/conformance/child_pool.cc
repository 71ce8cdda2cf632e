#include "child_pool.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

namespace salvage::conformance {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  std::size_t index = 0;
  pid_t pid = -1;
  int pipe = -1;
  Clock::time_point deadline;
  bool timed_out = false;
  std::string output;
};

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) std::_Exit(4);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

[[noreturn]] void run_child(int fd, std::size_t index,
                            const std::function<std::string(std::size_t)>& work) {
  ::setenv("GGML_NO_BACKTRACE", "1", 1);  // Else an abort starts a debugger.
  try {
    write_all(fd, work(index));
  } catch (const std::exception& error) {
    write_all(fd, error.what());
    std::_Exit(3);
  }
  std::_Exit(0);  // No destructors: the parent's state was copied with the process.
}

Child start(std::size_t index, int seconds_max,
            const std::function<std::string(std::size_t)>& work) {
  int ends[2];
  CHECK(::pipe(ends) == 0);
  const pid_t pid = ::fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    ::close(ends[0]);
    run_child(ends[1], index, work);
  }
  ::close(ends[1]);
  Child child;
  child.index = index;
  child.pid = pid;
  child.pipe = ends[0];
  child.deadline = Clock::now() + std::chrono::seconds(seconds_max);
  return child;
}

std::string describe(int status, bool timed_out, int seconds_max) {
  if (timed_out) return fmt::format("still running after {} s", seconds_max);
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

ChildResult finish(Child& child, int seconds_max) {
  ::close(child.pipe);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ChildResult result;
  result.finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  result.output = std::move(child.output);
  result.ending = describe(status, child.timed_out, seconds_max);
  return result;
}

// Reads what is there. True once the child has closed its end.
bool drain(Child& child) {
  char buffer[1 << 16];
  const ssize_t count = ::read(child.pipe, buffer, sizeof buffer);
  if (count > 0) child.output.append(buffer, static_cast<std::size_t>(count));
  return count == 0 || (count < 0 && errno != EINTR);
}

void kill_late(std::vector<Child>& children) {
  for (Child& child : children) {
    if (child.timed_out || Clock::now() < child.deadline) continue;
    child.timed_out = true;
    ::kill(child.pid, SIGKILL);
  }
}

}  // namespace

void run_in_children(const ChildPoolOptions& options,
                     const std::function<std::string(std::size_t)>& work,
                     const std::function<void(std::size_t, const ChildResult&)>& done) {
  std::vector<Child> running;
  std::size_t next = 0;
  while (next < options.job_count || !running.empty()) {
    while (next < options.job_count && running.size() < options.parallel) {
      running.push_back(start(next++, options.seconds_max, work));
    }
    std::vector<pollfd> polled;
    for (const Child& child : running) polled.push_back({child.pipe, POLLIN, 0});
    ::poll(polled.data(), polled.size(), 1000);
    for (std::size_t i = running.size(); i-- > 0;) {
      if (polled[i].revents == 0 || !drain(running[i])) continue;
      const ChildResult result = finish(running[i], options.seconds_max);
      const std::size_t index = running[i].index;
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      done(index, result);
    }
    kill_late(running);
  }
}

}  // namespace salvage::conformance
