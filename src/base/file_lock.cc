#include "base/file_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

namespace salvage {
namespace {

// What the holder wrote, if it is a number: its process id.
std::string holder(int descriptor) {
  std::array<char, 24> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  std::string id(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  id.resize(std::min(id.find_first_not_of("0123456789"), id.size()));
  return id.empty() ? "another process" : "process " + id;
}

}  // namespace

Result<FileLock> FileLock::take(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
  if (descriptor < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kPermissionDenied;
    return fail(code, fmt::format("cannot open {}: {}", path.native(),
                                  std::generic_category().message(errno)));
  }
  FileLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("{} is in use by {}", path.parent_path().native(), holder(descriptor)));
  }
  // Only for the message above: that it could not be written costs nothing else.
  const std::string id = fmt::format("{}\n", ::getpid());
  if (::ftruncate(descriptor, 0) == 0) (void)!::pwrite(descriptor, id.data(), id.size(), 0);
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace salvage
