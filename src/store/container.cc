#include "store/container.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "model/gguf_header.h"
#include "model/piece_catalogue.h"
#include "model/shard.h"
#include "model/shard_keys.h"
#include "store/seal.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kDamagedBytesMax = std::uint64_t{model::kPieceCountMax} * 65;

fs::path damaged_path(const fs::path& file) {
  return file.native() + ".damaged";
}

bool exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Also a file whose end is missing, as long as its header is whole.
Result<model::Gguf> open_what_is_left(const fs::path& path) {
  auto whole = model::Gguf::open(path);
  if (whole) return whole;
  ASSIGN_OR_RETURN(ReadOnlyFile file, ReadOnlyFile::open(path));
  ASSIGN_OR_RETURN(model::GgufHeader header,
                   model::read_gguf_header(file, model::TensorData::kElsewhere));
  return model::Gguf::from_header(std::move(header),
                                  std::make_unique<ReadOnlyFile>(std::move(file)), path.native());
}

bool says_nothing_is_left(const Error& error) {
  return error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported ||
         error.code() == ErrorCode::kNotFound;
}

Result<std::vector<model::HeldPiece>> held_in(const ModelFolder& folder, const Container& file) {
  if (file.kind == ContainerKind::kShard) {
    return model::pieces_in_shard(*folder.metadata(), folder.pieces(), file.layers, *file.file);
  }
  return model::pieces_in_file(folder.pieces(), *file.file);
}

// Whether the file is what would be made today.
bool is_current(const ModelFolder& folder, const Container& container) {
  if (container.kind == ContainerKind::kShard) {
    return model::is_shard_of(*container.file, *folder.metadata(), container.layers);
  }
  return container.file->metadata().text_value(model::kTableDigestKey) ==
             folder.entry().model_digest &&
         !container.held.empty();
}

void forget(const ModelFolder& folder, const std::set<PieceDigest>& damaged,
            std::vector<model::HeldPiece>& held) {
  std::erase_if(held, [&](const model::HeldPiece& piece) {
    return damaged.contains(folder.digest(piece.index));
  });
}

std::set<PieceDigest> read_damaged(const fs::path& file) {
  std::set<PieceDigest> digests;
  const auto text = read_small_file(damaged_path(file), kDamagedBytesMax);
  if (!text) return digests;
  std::istringstream lines(*text);
  for (std::string line; lines >> line;) digests.insert(PieceDigest{line});
  return digests;
}

// What should be in a file that cannot be read at all.
std::vector<std::size_t> expected_pieces(const ModelFolder& folder, const Container& container) {
  if (container.kind == ContainerKind::kShard) {
    const auto needed = model::needed_pieces(*folder.metadata(), folder.pieces(), container.layers);
    return needed ? *needed : std::vector<std::size_t>();
  }
  for (std::size_t i = 0; i < folder.pieces().size(); ++i) {
    if (folder.pieces()[i].kind == model::PieceKind::kEmbedding) return {i};
  }
  return {};
}

Result<void> write_marks(const fs::path& path, const std::set<PieceDigest>& damaged) {
  std::string text;
  for (const PieceDigest& digest : damaged) text += digest.value + "\n";
  RETURN_IF_ERROR(write_small_file(damaged_path(path), text));
  return put_seal(path);
}

// A file without an intact seal, or of another version of this program.
Result<OpenedContainer> examine(const ModelFolder& folder, Container container, bool never_sealed) {
  ASSIGN_OR_RETURN(const auto damaged, damaged_pieces(folder, container, {}));
  OpenedContainer opened{std::nullopt, damaged};
  container.whole = never_sealed && damaged.empty() && is_current(folder, container);
  std::set<PieceDigest> digests;
  for (const std::size_t index : damaged) digests.insert(folder.digest(index));
  if (container.whole) {
    RETURN_IF_ERROR(put_seal(container.path));
  } else {
    RETURN_IF_ERROR(write_marks(container.path, digests));
  }
  forget(folder, digests, container.held);
  if (container.held.empty()) {
    remove_container(container.path);
  } else {
    opened.container = std::move(container);
  }
  return opened;
}

}  // namespace

const model::HeldPiece* Container::find(std::size_t piece) const {
  const auto found = std::find_if(held.begin(), held.end(),
                                  [&](const model::HeldPiece& one) { return one.index == piece; });
  return found == held.end() ? nullptr : &*found;
}

Result<FileStamp> stamp_of(const fs::path& path) {
  std::error_code error;
  FileStamp stamp;
  stamp.bytes = fs::file_size(path, error);
  if (!error) stamp.changed = fs::last_write_time(path, error).time_since_epoch().count();
  if (error) return fail(ErrorCode::kNotFound, path.native() + ": " + error.message());
  return stamp;
}

Result<std::vector<FileStamp>> stamps_of(const model::Gguf& file) {
  std::vector<FileStamp> stamps;
  for (std::size_t part = 0; part < file.part_count(); ++part) {
    ASSIGN_OR_RETURN(const FileStamp stamp, stamp_of(file.part_name(part)));
    stamps.push_back(stamp);
  }
  return stamps;
}

Result<OpenedContainer> open_container(const ModelFolder& folder, const fs::path& path) {
  Container container;
  container.path = path;
  if (path == folder.table_path()) {
    container.kind = ContainerKind::kTable;
  } else {
    const auto layers = ModelFolder::shard_layers(path.filename().native());
    if (!layers) return fail(ErrorCode::kInvalidArgument, path.native() + " is no shard's name");
    container.layers = *layers;
  }
  const bool had_seal = exists(path.native() + ".seal");
  const bool sealed = seal_intact(path);
  auto file = open_what_is_left(path);
  // A machine that is out of descriptors must not lose its weights over it.
  if (!file && !says_nothing_is_left(file.error())) return fail(std::move(file).error());
  if (file) {
    container.file = std::make_shared<const model::Gguf>(std::move(*file));
    ASSIGN_OR_RETURN(container.held, held_in(folder, container));
  }
  if (container.held.empty()) {
    OpenedContainer nothing{std::nullopt, expected_pieces(folder, container)};
    remove_container(path);
    return nothing;
  }
  const bool marked = store::exists(damaged_path(path));
  if (sealed && marked) {
    forget(folder, read_damaged(path), container.held);
    container.whole = false;
    if (!container.held.empty()) return OpenedContainer{std::move(container), {}};
    remove_container(path);
    return OpenedContainer{};
  }
  if (sealed && is_current(folder, container)) return OpenedContainer{std::move(container), {}};
  return examine(folder, std::move(container), !had_seal && !marked);
}

Result<Container> open_source(const ModelFolder& folder, const SourceFile& source) {
  ASSIGN_OR_RETURN(model::Gguf file, model::Gguf::open(source.path));
  ASSIGN_OR_RETURN(const auto stamps, stamps_of(file));
  if (stamps != source.stamps) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("{} has changed since it was hashed; load the model from it again",
                            source.path.native()));
  }
  Container container;
  container.kind = ContainerKind::kSource;
  container.path = source.path;
  container.file = std::make_shared<const model::Gguf>(std::move(file));
  container.held = model::pieces_in_file(folder.pieces(), *container.file);
  forget(folder, {source.damaged.begin(), source.damaged.end()}, container.held);
  return container;
}

Result<std::vector<std::size_t>> damaged_pieces(const ModelFolder& folder,
                                                const Container& container,
                                                const model::ByteProgress& progress) {
  std::vector<std::size_t> damaged;
  for (const model::HeldPiece& piece : container.held) {
    const auto content = content_of(folder, container, piece);
    const auto digest = model::hash_content(*content, progress);
    if (!digest && digest.error().code() == ErrorCode::kCancelled) return fail(digest.error());
    if (!digest || *digest != folder.digest(piece.index)) damaged.push_back(piece.index);
  }
  return damaged;
}

Result<void> mark_damaged(const ModelFolder& folder, const fs::path& path,
                          const std::vector<std::size_t>& damaged) {
  std::set<PieceDigest> digests = read_damaged(path);
  for (const std::size_t index : damaged) digests.insert(folder.digest(index));
  return write_marks(path, digests);
}

std::unique_ptr<ByteSource> content_of(const ModelFolder& folder, const Container& container,
                                       const model::HeldPiece& held) {
  return std::make_unique<model::PieceContent>(folder.pieces()[held.index], container.file,
                                               held.places);
}

void remove_marks(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path.native() + ".seal", ignored);
  fs::remove(damaged_path(path), ignored);
}

void remove_container(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
  remove_marks(path);
}

}  // namespace salvage::store
