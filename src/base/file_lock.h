#pragma once

// Keeps a second process away from files of ours: a lock on a small file, held while the object
// lives and let go by the kernel when the process ends, however it ends. Fails with `unavailable`
// that names the process which holds it. Thread rule: none shared.

#include <filesystem>
#include <string>

#include "base/result.h"

namespace salvage {

class FileLock {
 public:
  // Makes the file if need be; its folder must be there. Never waits. `command`: what this process
  // is, "up" or "join", for whoever finds the lock taken.
  static Result<FileLock> take(const std::filesystem::path& path, const std::string& command = {});
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace salvage
