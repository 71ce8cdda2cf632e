#pragma once

// One process a data folder. The lock is the kernel's (flock), so it ends with the process that
// holds it, however that ends; the file beside says who that is. Failure: `unavailable` names the
// holder.

#include <filesystem>
#include <string>

#include "base/result.h"

namespace salvage::state {

class FolderLock {
 public:
  // `command`: what this process is, "up" or "join".
  static Result<FolderLock> take(const std::filesystem::path& file, const std::string& command);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace salvage::state
