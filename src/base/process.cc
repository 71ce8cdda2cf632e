#include "base/process.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.h"

namespace salvage {
namespace {

constexpr std::size_t kErrorsTailBytesMax = 4096;
constexpr std::size_t kSecretBytesMax = std::size_t{64} << 10;
constexpr std::string_view kRunFolderPrefix = "salvage-run-";
constexpr int kRunFolderAttempts = 10;
// A socket's address has 107 bytes: ours add "/salvage-run-XXXXXX/stage-NN.sock" to the parent.
constexpr std::size_t kRunParentBytesMax = 70;

Error system_error(std::string_view what) {
  return Error(ErrorCode::kInternal,
               fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  void close_both() {
    if (read_end >= 0) ::close(read_end);
    if (write_end >= 0) ::close(write_end);
  }
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(system_error("cannot create a pipe"));
  return Pipe{ends[0], ends[1]};
}

// Runs in the forked child: only async-signal-safe calls until exec.
[[noreturn]] void become(char* const* argv, const Pipe& input, const Pipe& errors, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // It died between fork and prctl.
  ::dup2(input.read_end, STDIN_FILENO);
  ::dup2(errors.write_end, STDERR_FILENO);
  const int null = ::open("/dev/null", O_WRONLY);
  if (null >= 0) ::dup2(null, STDOUT_FILENO);
  // Own process group: Ctrl-C reaches the parent alone, which then ends its children in order.
  ::setpgid(0, 0);
  ::execv(argv[0], argv);
  ::_exit(127);
}

// Opens and locks a folder of ours: its descriptor, or -1 if it is gone, somebody else's or in use.
// The kernel gives the lock up when the process ends, however it ends.
int lock_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  struct stat held {};
  struct stat named {};
  const bool locked = ::flock(folder, LOCK_EX | LOCK_NB) == 0 && ::fstat(folder, &held) == 0 &&
                      ::lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
                      held.st_uid == ::geteuid();
  if (locked) return folder;
  ::close(folder);
  return -1;
}

// Removes run folders whose process was killed. Only sockets are removed from them, so that a
// folder of the same name that holds anything else stays.
void remove_abandoned(const std::filesystem::path& parent) {
  using Iterator = std::filesystem::directory_iterator;
  std::error_code error;
  for (Iterator entry(parent, error); !error && entry != Iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    if (entry->path().filename().string().rfind(kRunFolderPrefix, 0) != 0) continue;
    const int lock = lock_folder(path);
    if (lock < 0) continue;
    std::error_code ignored;
    for (Iterator file(path, ignored); !ignored && file != Iterator(); file.increment(ignored)) {
      std::error_code unknown;
      if (file->is_socket(unknown)) ::unlink(file->path().c_str());
    }
    ::rmdir(path.c_str());
    ::close(lock);
  }
}

ExitStatus to_status(int raw) {
  ExitStatus status;
  if (WIFSIGNALED(raw)) status.signal = WTERMSIG(raw);
  if (WIFEXITED(raw)) status.code = WEXITSTATUS(raw);
  return status;
}

}  // namespace

std::string ExitStatus::text() const {
  if (signal != 0) {
    const char* const name = ::strsignal(signal);  // NOLINT(concurrency-mt-unsafe): glibc's is safe
    return fmt::format("killed by signal {} ({})", signal, name);
  }
  return fmt::format("exit code {}", code);
}

Result<Child> Child::spawn(const SpawnOptions& options) {
  ASSIGN_OR_RETURN(Pipe input, make_pipe());
  auto errors = make_pipe();
  if (!errors) {
    input.close_both();
    return fail(errors.error());
  }
  std::vector<char*> argv;
  for (const std::string& argument : options.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(argv.data(), input, *errors, parent);
  const int fork_errno = errno;
  ::close(input.read_end);
  ::close(errors->write_end);
  Child child(pid, input.write_end, errors->read_end);
  errno = fork_errno;
  if (pid < 0) return fail(system_error("cannot start a process"));
  ::fcntl(child.errors_, F_SETFL, O_NONBLOCK);
  const std::string line = options.secret_line + "\n";
  const ssize_t written = ::write(child.lifeline_, line.data(), line.size());
  // A child that has ended already has a story to tell, which poll() and last_words() do better.
  if (written != static_cast<ssize_t>(line.size()) && errno != EPIPE) {
    return fail(system_error("cannot speak to a new process"));
  }
  return child;
}

Child::Child(Child&& other) noexcept {
  *this = std::move(other);
}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(lifeline_, other.lifeline_);
  std::swap(errors_, other.errors_);
  std::swap(errors_tail_, other.errors_tail_);
  std::swap(status_, other.status_);
  return *this;
}

Child::~Child() {
  if (pid_ > 0 && !poll()) {
    kill();
    int raw = 0;
    while (::waitpid(pid_, &raw, 0) < 0 && errno == EINTR) {
    }
  }
  if (lifeline_ >= 0) ::close(lifeline_);
  if (errors_ >= 0) ::close(errors_);
}

std::optional<ExitStatus> Child::poll() {
  if (status_ || pid_ <= 0) return status_;
  read_errors();
  int raw = 0;
  if (::waitpid(pid_, &raw, WNOHANG) == pid_) status_ = to_status(raw);
  return status_;
}

std::optional<ExitStatus> Child::wait_for(std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (!poll() && std::chrono::steady_clock::now() < deadline) {
    // Nothing tells of a child's end without a signal handler; its standard error closing does.
    pollfd errors{errors_, POLLIN, 0};
    ::poll(&errors, 1, 5);
    if ((errors.revents & POLLHUP) != 0) ::poll(nullptr, 0, 2);
  }
  return status_;
}

void Child::release() {
  if (lifeline_ >= 0) ::close(lifeline_);
  lifeline_ = -1;
}

void Child::kill() {
  if (pid_ > 0 && !status_) ::kill(pid_, SIGKILL);
}

void Child::read_errors() {
  std::array<char, 1024> buffer{};
  while (errors_ >= 0) {
    const ssize_t count = ::read(errors_, buffer.data(), buffer.size());
    if (count <= 0) break;
    errors_tail_.append(buffer.data(), static_cast<std::size_t>(count));
    if (errors_tail_.size() > kErrorsTailBytesMax) {
      errors_tail_.erase(0, errors_tail_.size() - kErrorsTailBytesMax);
    }
  }
}

std::string Child::last_words() {
  read_errors();
  return errors_tail_;
}

Result<std::string> read_secret_line() {
  std::string line;
  char byte = 0;
  while (line.size() < kSecretBytesMax) {
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count != 1) break;
    if (byte == '\n') return line;
    line.push_back(byte);
  }
  return fail(ErrorCode::kInvalidArgument, "standard input carries no secret line");
}

void watch_lifeline(void (*on_orphaned)()) {
  std::thread([on_orphaned] {
    char byte = 0;
    ssize_t count = 1;
    while (count > 0 || (count < 0 && errno == EINTR)) count = ::read(STDIN_FILENO, &byte, 1);
    on_orphaned();
  }).detach();
}

Result<std::string> own_executable() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return fail(ErrorCode::kInternal, "cannot find the running program: " + error.message());
  return path.string();
}

namespace {

// The first folder that can hold sockets: writable, absolute, and short enough for their addresses.
std::filesystem::path run_folder_parent() {
  std::error_code ignored;
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const std::string path = environment(variable).value_or("");
    if (path.starts_with('/') && path.size() <= kRunParentBytesMax &&
        std::filesystem::is_directory(path, ignored) && ::access(path.c_str(), W_OK) == 0) {
      return path;
    }
  }
  return "/tmp";
}

}  // namespace

Result<RunFolder> RunFolder::create() {
  const std::filesystem::path parent = run_folder_parent();
  remove_abandoned(parent);
  // Somebody who sweeps may take a folder in the instant before it is locked: then take another.
  for (int attempt = 0; attempt < kRunFolderAttempts; ++attempt) {
    std::string path = (parent / (std::string(kRunFolderPrefix) + "XXXXXX")).string();
    if (::mkdtemp(path.data()) == nullptr) break;
    const int lock = lock_folder(path);
    if (lock >= 0) return RunFolder(std::move(path), lock);
  }
  return fail(system_error("cannot create a folder for sockets in " + parent.string()));
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void exit_worker(std::string_view socket_path, int code) {
  const std::string path(socket_path);
  if (!path.empty()) {
    ::unlink(path.c_str());
    ::rmdir(std::filesystem::path(path).parent_path().c_str());
  }
  ::_exit(code);
}

}  // namespace salvage
