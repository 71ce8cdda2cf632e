#pragma once

// A file in which pieces lie: a shard, the embedding table, or a model file elsewhere on this
// machine. Opening one finds out which pieces are whole in it. Inside of the store.
//
// Shards and tables have a seal (store/seal.h). While it is intact they are believed; otherwise
// every piece is hashed, and what is not whole is written down beside the file (`*.damaged`), which
// from then on serves only as a source of pieces. Model files have a stamp of size and time of
// change, taken when they were hashed.
// Failure: `corrupt` for files of which nothing is of use.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/ids.h"
#include "base/result.h"
#include "model/gguf.h"
#include "model/piece.h"
#include "store/model_folder.h"

namespace salvage::store {

enum class ContainerKind { kShard, kTable, kSource };

// Immutable. Owners: the store's list and who reads from it.
struct Container {
  ContainerKind kind = ContainerKind::kShard;
  std::filesystem::path path;
  LayerRange layers;  // of a shard
  bool whole = true;  // false: of use for its pieces only
  std::shared_ptr<const model::Gguf> file;
  std::vector<model::HeldPiece> held;

  const model::HeldPiece* find(std::size_t piece) const;
};

struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t changed = 0;  // ticks of the file clock
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
Result<FileStamp> stamp_of(const std::filesystem::path& path);

// A model file elsewhere, as it was when its pieces were hashed.
struct SourceFile {
  std::filesystem::path path;     // of the part that was named
  std::vector<FileStamp> stamps;  // one a part
  std::vector<PieceDigest> damaged;
  friend bool operator==(const SourceFile&, const SourceFile&) = default;
};
// In sources.json of the folder; no such file is no sources.
Result<std::vector<SourceFile>> read_sources(const ModelFolder& folder);
Result<void> write_sources(const ModelFolder& folder, const std::vector<SourceFile>& sources);
Result<std::vector<FileStamp>> stamps_of(const model::Gguf& file);

struct OpenedContainer {
  std::optional<Container> container;  // none: nothing in the file is of use, and it was removed
  std::vector<std::size_t> damaged;    // pieces found damaged now
};

// A shard or table of the folder.
Result<OpenedContainer> open_container(const ModelFolder& folder,
                                       const std::filesystem::path& path);
// `unavailable` if the file is no longer what was hashed.
Result<Container> open_source(const ModelFolder& folder, const SourceFile& source);

// Hashes the pieces of a container; the indices of those that are not what the entry says.
Result<std::vector<std::size_t>> damaged_pieces(const ModelFolder& folder,
                                                const Container& container,
                                                const model::ByteProgress& progress);
// Writes down that these pieces of a shard or table, too, are damaged, and seals the file as it is.
Result<void> mark_damaged(const ModelFolder& folder, const std::filesystem::path& path,
                          const std::vector<std::size_t>& damaged);

// The content of a piece in a container that holds it.
std::unique_ptr<ByteSource> content_of(const ModelFolder& folder, const Container& container,
                                       const model::HeldPiece& held);

// What stands beside the file: before another is put in its place.
void remove_marks(const std::filesystem::path& path);
// The file and what stands beside it.
void remove_container(const std::filesystem::path& path);

}  // namespace salvage::store
