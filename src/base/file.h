#pragma once

// The disk, behind two small seams. ByteSource is something of known size that can be read at any
// offset: a file (ReadOnlyFile) or bytes in memory (MemorySource, for tests and fuzzers). ByteSink
// takes bytes in order: AtomicFile, which appears under its final name only when commit() has
// succeeded, AppendFile, which several runs of the program fill, or MemorySink.
//
// Thread rule: a ByteSource may be read from several threads at once; a ByteSink belongs to one.
// Failure: every system error becomes a Result whose message names the path and says what to do.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace salvage {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `into` from `offset` on. Fewer bytes there than asked for is `corrupt`.
  virtual Result<void> read_at(std::uint64_t offset, std::span<std::byte> into) const = 0;
};

// What the file takes on the disk, also of room that was reserved and is not yet used; 0 if there
// is no such file.
std::uint64_t disk_bytes(const std::filesystem::path& path);

class ReadOnlyFile : public ByteSource {
 public:
  // Opens a regular file (a folder or a device is `invalid_argument`). Its size is taken now; if
  // the file shrinks later, reads fail.
  static Result<ReadOnlyFile> open(const std::filesystem::path& path);
  ReadOnlyFile(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile& operator=(ReadOnlyFile&&) = delete;
  ~ReadOnlyFile() override;

  std::uint64_t size() const override { return size_; }
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> into) const override;

 private:
  ReadOnlyFile(int descriptor, std::uint64_t size, std::string name);
  int descriptor_;
  std::uint64_t size_;
  std::string name_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> into) const override;

 private:
  std::string bytes_;
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Result<void> write(std::span<const std::byte> bytes) = 0;
};

class MemorySink : public ByteSink {
 public:
  Result<void> write(std::span<const std::byte> bytes) override;
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A file written under a temporary name beside its final one. commit() flushes it to the disk and
// renames it; a file that was not committed is removed by the destructor.
class AtomicFile : public ByteSink {
 public:
  // Asks the file system for `bytes_expected` at once, so that a full disk is found before the
  // work and not after. An existing regular file is replaced by commit(); anything else that
  // exists under `path` (folder, device, socket) is `invalid_argument`.
  static Result<AtomicFile> create(const std::filesystem::path& path, std::uint64_t bytes_expected);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile() override;

  Result<void> write(std::span<const std::byte> bytes) override;
  Result<void> commit();

 private:
  AtomicFile(int descriptor, std::filesystem::path path, std::string temporary);
  int descriptor_;
  std::filesystem::path path_;
  std::string temporary_;
};

// A file that grows at its end, over several runs of the program if need be: its size is how far it
// has come. publish() gives it its final name.
class AppendFile : public ByteSink {
 public:
  // Opens what is there or begins with nothing, and asks the file system for room up to
  // `bytes_expected` without changing the size.
  static Result<AppendFile> open(const std::filesystem::path& path, std::uint64_t bytes_expected);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  ~AppendFile() override;

  std::uint64_t size() const { return size_; }
  Result<void> write(std::span<const std::byte> bytes) override;
  // Flushes to the disk and renames; the object is of no further use, also if that failed.
  Result<void> publish(const std::filesystem::path& path);

 private:
  AppendFile(int descriptor, std::uint64_t size, std::filesystem::path path);
  int descriptor_;
  std::uint64_t size_;
  std::filesystem::path path_;
};

}  // namespace salvage
