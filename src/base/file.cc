#include "base/file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace salvage {
namespace {

// One system call moves at most this much; Linux itself stops below 2 GiB.
constexpr std::size_t kTransferBytesMax = std::size_t{1} << 30;

tl::unexpected<Error> system_failure(std::string_view what, std::string_view name, int error) {
  const std::string text =
      fmt::format("{} {}: {}", what, name, std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return fail(ErrorCode::kNotFound, text);
    case EACCES:
    case EPERM:
    case EROFS:
      return fail(ErrorCode::kPermissionDenied, text);
    case ENOSPC:
    case EDQUOT:
      return fail(ErrorCode::kResourceExhausted,
                  text + "; free some space there or choose a path on another disk");
    case EFBIG:
      return fail(ErrorCode::kResourceExhausted,
                  text + "; choose a path on a file system that takes larger files");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return fail(ErrorCode::kResourceExhausted, text);
    case ELOOP:
    case ENAMETOOLONG:
    case EISDIR:
    case EINVAL:
      return fail(ErrorCode::kInvalidArgument, text);
    default:
      return fail(ErrorCode::kUnavailable, text);
  }
}

tl::unexpected<Error> past_end(std::uint64_t offset, std::size_t count, std::uint64_t size) {
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("{} bytes at offset {} are past the end, at {} bytes", count, offset, size));
}

bool reaches_past(std::uint64_t offset, std::size_t count, std::uint64_t size) {
  return offset > size || count > size - offset;
}

// Asks for room up to `bytes`; a file system that cannot tell is believed.
Result<void> reserve(int descriptor, std::uint64_t bytes, const std::string& name) {
  if (bytes > 0 &&
      ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return system_failure(fmt::format("cannot reserve {} bytes for", bytes), name, errno);
  }
  return {};
}

// Makes a rename durable; a file system that cannot flush folders is not a failure of ours.
void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

std::uint64_t disk_bytes(const std::filesystem::path& path) {
  constexpr std::uint64_t kBlockBytes = 512;  // the unit of st_blocks, whatever the file system's
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return 0;
  return static_cast<std::uint64_t>(facts.st_blocks) * kBlockBytes;
}

Result<ReadOnlyFile> ReadOnlyFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe by mistake must not wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_failure("cannot open", path.native(), errno);
  ReadOnlyFile file(descriptor, 0, path.native());
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return system_failure("cannot open", path.native(), errno);
  if (!S_ISREG(facts.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a regular file", path.native()));
  }
  file.size_ = static_cast<std::uint64_t>(facts.st_size);
  return file;
}

ReadOnlyFile::ReadOnlyFile(int descriptor, std::uint64_t size, std::string name)
    : descriptor_(descriptor), size_(size), name_(std::move(name)) {}

ReadOnlyFile::ReadOnlyFile(ReadOnlyFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      name_(std::move(other.name_)) {}

ReadOnlyFile::~ReadOnlyFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> ReadOnlyFile::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  if (reaches_past(offset, into.size(), size_)) return past_end(offset, into.size(), size_);
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), std::min(into.size(), kTransferBytesMax),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("cannot read", name_, errno);
    if (got == 0) return fail(ErrorCode::kCorrupt, name_ + " became shorter while it was read");
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<void> MemorySource::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  if (reaches_past(offset, into.size(), bytes_.size())) {
    return past_end(offset, into.size(), bytes_.size());
  }
  if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
  return {};
}

Result<void> MemorySink::write(std::span<const std::byte> bytes) {
  bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path,
                                      std::uint64_t bytes_expected) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot write {}: it exists and is not a regular file", path.native()));
  }
  // Exclusive creation under a name of our own; unlike mkstemp it keeps the user's file mode.
  static std::atomic<unsigned> files_made{0};
  std::string temporary = fmt::format("{}.part-{}-{}", path.native(), ::getpid(), files_made++);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return system_failure("cannot write", path.native(), errno);
  AtomicFile file(descriptor, path, std::move(temporary));
  RETURN_IF_ERROR(reserve(descriptor, bytes_expected, path.native()));
  return file;
}

AtomicFile::AtomicFile(int descriptor, std::filesystem::path path, std::string temporary)
    : descriptor_(descriptor), path_(std::move(path)), temporary_(std::move(temporary)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put =
        ::write(descriptor_, bytes.data(), std::min(bytes.size(), kTransferBytesMax));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_failure("cannot write", path_.native(), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Result<void> AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) return system_failure("cannot write", path_.native(), errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    return system_failure("cannot write", path_.native(), errno);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return system_failure("cannot write", path_.native(), errno);
  }
  temporary_.clear();
  flush_folder(path_.parent_path());
  return {};
}

Result<AppendFile> AppendFile::open(const std::filesystem::path& path,
                                    std::uint64_t bytes_expected) {
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor < 0) return system_failure("cannot write", path.native(), errno);
  AppendFile file(descriptor, 0, path);
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return system_failure("cannot write", path.native(), errno);
  if (!S_ISREG(facts.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot write {}: it is not a regular file", path.native()));
  }
  file.size_ = static_cast<std::uint64_t>(facts.st_size);
  RETURN_IF_ERROR(reserve(descriptor, bytes_expected, path.native()));
  return file;
}

AppendFile::AppendFile(int descriptor, std::uint64_t size, std::filesystem::path path)
    : descriptor_(descriptor), size_(size), path_(std::move(path)) {}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)) {}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> AppendFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put =
        ::write(descriptor_, bytes.data(), std::min(bytes.size(), kTransferBytesMax));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_failure("cannot write", path_.native(), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    size_ += static_cast<std::uint64_t>(put);
  }
  return {};
}

Result<void> AppendFile::publish(const std::filesystem::path& path) {
  if (::fsync(descriptor_) != 0) return system_failure("cannot write", path_.native(), errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    return system_failure("cannot write", path_.native(), errno);
  }
  if (::rename(path_.c_str(), path.c_str()) != 0) {
    return system_failure("cannot write", path.native(), errno);
  }
  flush_folder(path.parent_path());
  return {};
}

}  // namespace salvage
