#include "base/file_lock.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

namespace salvage {
namespace {

// "1234 up"; anything else, as in the moment before it is written, names nobody.
std::string holder(int descriptor) {
  std::array<char, 64> buffer{};
  const ssize_t got = ::pread(descriptor, buffer.data(), buffer.size(), 0);
  const std::string_view text(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  long pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc() || pid <= 0) return "another salvage";
  std::string command;
  for (const char letter : text.substr(static_cast<std::size_t>(end - text.data()))) {
    if (letter >= 'a' && letter <= 'z') command += letter;
  }
  return fmt::format("another salvage {} (pid {})", command.empty() ? "process" : command, pid);
}

ErrorCode code_of_open(int error) {
  if (error == ENOENT) return ErrorCode::kNotFound;
  return error == ENOSPC ? ErrorCode::kResourceExhausted : ErrorCode::kPermissionDenied;
}

}  // namespace

Result<FileLock> FileLock::take(const std::filesystem::path& path, const std::string& command) {
  const int descriptor =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    return fail(code_of_open(errno), fmt::format("cannot write {}: {}", path.native(),
                                                 std::generic_category().message(errno)));
  }
  FileLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("{} uses {}", holder(descriptor), path.parent_path().native()));
  }
  // Only for the message above: a full disk must not keep us from running.
  const std::string text = fmt::format("{} {}\n", ::getpid(), command);
  if (::ftruncate(descriptor, 0) == 0) (void)!::pwrite(descriptor, text.data(), text.size(), 0);
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace salvage
