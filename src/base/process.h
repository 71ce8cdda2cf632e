#pragma once

// Child processes that never outlive their parent. A child is tied to us twice: the kernel kills it
// when the thread that spawned it ends (so spawn from a thread that lives as long as the child
// should), and it holds the read end of a pipe, its lifeline, whose end of file means that the
// parent is gone. Thread rule: one thread owns a Child. The program ignores SIGPIPE
// (base/interrupt.h).

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace salvage {

struct SpawnOptions {
  std::vector<std::string> arguments;  // arguments[0] is the program's path
  std::string secret_line;             // Written to the child's standard input first; not in argv.
};

// How a child ended, in words for a person: "exit code 3", "killed by signal 9 (Killed)".
struct ExitStatus {
  int code = 0;    // exit code if it exited by itself
  int signal = 0;  // otherwise the signal
  std::string text() const;
};

class Child {
 public:
  static Result<Child> spawn(const SpawnOptions& options);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();  // Kills the child if it still runs, and reaps it.

  pid_t pid() const { return pid_; }
  // Ended already? Never blocks.
  std::optional<ExitStatus> poll();
  // Waits until it ends or the time is over.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds time);
  // Closes the lifeline: a well-behaved child leaves by itself.
  void release();
  void kill();
  // The last lines that the child wrote to its standard error (at most 4 KiB), for error messages.
  std::string last_words();

 private:
  Child(pid_t pid, int lifeline, int errors) : pid_(pid), lifeline_(lifeline), errors_(errors) {}
  void read_errors();

  pid_t pid_ = -1;
  int lifeline_ = -1;  // write end of the child's standard input
  int errors_ = -1;    // read end of the child's standard error, non-blocking
  std::string errors_tail_;
  std::optional<ExitStatus> status_;
};

// In the child: reads the secret line from standard input, then calls `on_orphaned` from a thread
// of its own once standard input ends. `on_orphaned` must not return control to the program.
Result<std::string> read_secret_line();
void watch_lifeline(void (*on_orphaned)());

// The path of the running program.
Result<std::string> own_executable();

// A new private folder (0700) for sockets, under $XDG_RUNTIME_DIR or the temporary folder.
// Removed with what is in it when the object dies. Its owner holds a lock on it, so that a later
// create() recognises and removes what a killed process left behind.
class RunFolder {
 public:
  static Result<RunFolder> create();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  RunFolder(const RunFolder&) = delete;
  ~RunFolder();
  const std::string& path() const { return path_; }

 private:
  RunFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_ = -1;  // the folder itself, open and locked
};

// Ends a worker at once: removes its socket and, if it was the last, the run folder.
[[noreturn]] void exit_worker(std::string_view socket_path, int code);

}  // namespace salvage
