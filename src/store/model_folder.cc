#include "store/model_folder.h"

#include <charconv>
#include <chrono>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/sha256.h"
#include "model/skeleton.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFolderNameDigits = 32;
constexpr std::string_view kCatalogue = "catalogue.json";
constexpr std::string_view kSkeleton = "skeleton.gguf";

Result<void> make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return {};
  return fail(ErrorCode::kPermissionDenied,
              fmt::format("cannot create the folder {}: {}; choose another data folder (--data)",
                          path.native(), error.message()));
}

std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

Result<std::string> read_small_file(const fs::path& path, std::uint64_t bytes_max) {
  ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::open(path));
  if (file.size() > bytes_max) {
    return fail(ErrorCode::kCorrupt, fmt::format("{} has {} bytes, {} are the most", path.native(),
                                                 file.size(), bytes_max));
  }
  std::string bytes(static_cast<std::size_t>(file.size()), '\0');
  RETURN_IF_ERROR(file.read_at(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

Result<void> write_small_file(const fs::path& path, const std::string& bytes) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, bytes.size()));
  RETURN_IF_ERROR(file.write(std::as_bytes(std::span(bytes))));
  return file.commit();
}

std::string ModelFolder::name_of(const ModelId& id) {
  return id.value.substr(0, kFolderNameDigits);
}

Result<ModelFolder> ModelFolder::assemble(const fs::path& path, model::CatalogueEntry entry,
                                          const std::string& skeleton) {
  Sha256 hash;
  hash.update(skeleton);
  if (skeleton.size() != entry.skeleton_bytes || hash.hex() != entry.skeleton.value) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("the skeleton of {} is not the one that its entry names", entry.name));
  }
  ModelFolder folder;
  ASSIGN_OR_RETURN(model::Gguf metadata, model::open_skeleton(skeleton, {}, entry.name));
  RETURN_IF_ERROR(model::check_entry(entry, metadata));
  folder.metadata_ = std::make_shared<const model::Gguf>(std::move(metadata));
  ASSIGN_OR_RETURN(folder.pieces_, model::list_pieces(*folder.metadata_));
  folder.path_ = path;
  folder.id_ = entry.id();
  for (std::size_t i = 0; i < entry.pieces.size(); ++i) {
    folder.index_.emplace(entry.pieces[i].digest, i);
  }
  folder.entry_ = std::move(entry);
  return folder;
}

Result<ModelFolder> ModelFolder::load(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string text,
                   read_small_file(path / kCatalogue, model::kEntryBytesMax));
  ASSIGN_OR_RETURN(model::CatalogueEntry entry, model::parse_entry(text));
  if (path.filename().native() != name_of(entry.id())) {
    return fail(ErrorCode::kCorrupt, "its catalogue entry is of another model");
  }
  ASSIGN_OR_RETURN(const std::string skeleton,
                   read_small_file(path / kSkeleton, model::kSkeletonBytesMax));
  return assemble(path, std::move(entry), skeleton);
}

Result<ModelFolder> ModelFolder::create(const fs::path& models, const model::CatalogueEntry& entry,
                                        const std::string& skeleton) {
  // What is written must be what load() takes.
  const std::string text = model::encode_entry(entry);
  ASSIGN_OR_RETURN(model::CatalogueEntry checked, model::parse_entry(text));
  const fs::path path = models / name_of(checked.id());
  ASSIGN_OR_RETURN(ModelFolder folder, assemble(path, std::move(checked), skeleton));
  RETURN_IF_ERROR(make_folder(folder.pieces_path()));
  RETURN_IF_ERROR(make_folder(folder.shards_path()));
  RETURN_IF_ERROR(write_small_file(path / kSkeleton, skeleton));
  RETURN_IF_ERROR(write_small_file(path / kCatalogue, text));
  return folder;
}

std::int64_t ModelFolder::made_s() const {
  std::error_code error;
  const auto changed = fs::last_write_time(path_ / kCatalogue, error);  // written once
  if (error) return 0;
  const auto time = std::chrono::file_clock::to_sys(changed).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

std::optional<std::size_t> ModelFolder::index_of(const PieceDigest& digest) const {
  const auto found = index_.find(digest);
  return found == index_.end() ? std::nullopt : std::optional(found->second);
}

std::string ModelFolder::piece_title(std::size_t index) const {
  return fmt::format("{} of {}", entry_.pieces[index].name, entry_.name);
}

Result<std::string> ModelFolder::read_skeleton() const {
  return read_small_file(path_ / kSkeleton, model::kSkeletonBytesMax);
}

fs::path ModelFolder::piece_path(const PieceDigest& digest) const {
  return pieces_path() / digest.value;
}

fs::path ModelFolder::part_path(const PieceDigest& digest) const {
  return pieces_path() / (digest.value + ".part");
}

fs::path ModelFolder::shard_path(LayerRange layers) const {
  return shards_path() / fmt::format("layers-{}-{}.gguf", layers.begin, layers.end);
}

std::optional<LayerRange> ModelFolder::shard_layers(const std::string& file_name) {
  constexpr std::string_view kBegin = "layers-";
  std::string_view rest = file_name;
  if (!rest.starts_with(kBegin)) return std::nullopt;
  rest.remove_prefix(kBegin.size());
  const auto begin = take_number(rest);
  if (!begin || !rest.starts_with('-')) return std::nullopt;
  rest.remove_prefix(1);
  const auto end = take_number(rest);
  if (!end || rest != ".gguf" || *begin >= *end) return std::nullopt;
  return LayerRange{*begin, *end};
}

}  // namespace salvage::store
