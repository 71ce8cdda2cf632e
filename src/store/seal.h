#pragma once

// A seal tells whether a file is still what was written: a small file beside it, `<name>.seal`,
// holds its SHA-256, its size and its time of change. While size and time are the recorded ones the
// seal is intact; otherwise the content is hashed again, so a file that was damaged, restored or
// copied is noticed, and one that was only touched is not made again. A disk that changes bits
// without anybody writing is beyond it. Thread rule: none shared.

#include <filesystem>

#include "base/result.h"
#include "model/piece.h"

namespace salvage::store {

// Hashes the file as it is and writes its seal.
Result<void> put_seal(const std::filesystem::path& file);

// False: no seal, or not the content that was sealed.
bool seal_intact(const std::filesystem::path& file);

// Reads all of the file, whatever its size and time say.
Result<bool> content_is_sealed(const std::filesystem::path& file,
                               const model::ByteProgress& progress);

}  // namespace salvage::store
