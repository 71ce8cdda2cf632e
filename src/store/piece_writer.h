#pragma once

// One piece on its way to the disk. Bytes may come in any order within a window; what joins on at
// the end goes to `<digest>.part`, whose size is the point at which a later run goes on. finish()
// verifies the whole and gives it its final name; bytes that don't verify are thrown away.
//
// Thread rule: one thread. The PieceStore that made it must outlive it. Letting go of a writer
// keeps what was written.
// Failure: `corrupt`, naming the piece, from finish(); `resource_exhausted` for a full disk or for
// bytes too far ahead; `invalid_argument` for bytes behind the piece's end.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/sha256.h"
#include "model/piece.h"

namespace salvage::store {

// Bytes that wait in memory for what comes before them: store/fetch_plan.h asks no further ahead.
inline constexpr std::uint64_t kAheadBytesMax = std::uint64_t{32} << 20;

struct WriterTarget {
  std::filesystem::path part;
  std::filesystem::path final_path;
  std::string name;  // "layer 7 of qwen"
  PieceDigest digest;
  std::uint64_t bytes = 0;
};

class PieceWriter {
 public:
  // `released(finished)` is called once, when the writer ends.
  using Released = std::function<void(bool finished)>;
  static Result<std::unique_ptr<PieceWriter>> open(WriterTarget target, Released released);
  ~PieceWriter();
  PieceWriter(const PieceWriter&) = delete;
  PieceWriter& operator=(const PieceWriter&) = delete;

  const PieceDigest& digest() const { return target_.digest; }
  std::uint64_t bytes() const { return target_.bytes; }
  std::uint64_t offset() const { return file_->size(); }  // everything before it is on disk
  bool complete() const { return offset() == bytes(); }

  // What is there already is ignored.
  Result<void> write(std::uint64_t at, std::span<const std::byte> data);
  // Once complete(). Reads again what an earlier run wrote. `cancelled` keeps the bytes.
  Result<void> finish(const model::ByteProgress& progress = {});

 private:
  PieceWriter(WriterTarget target, Released released);
  Result<void> append(std::span<const std::byte> data);
  Result<void> append_waiting();
  Result<PieceDigest> hash(const model::ByteProgress& progress);

  WriterTarget target_;
  Released released_;
  std::optional<AppendFile> file_;
  std::map<std::uint64_t, std::string> waiting_;  // by offset
  std::uint64_t waiting_bytes_ = 0;
  std::optional<Sha256> running_;  // over all bytes, if this run wrote all of them
  bool finished_ = false;
};

}  // namespace salvage::store
