#include "store/store_state.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "store/seal.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;

constexpr Logger kLog("store");
constexpr std::string_view kRemoved = ".removed";

// Names that AtomicFile gives to what it has not finished.
bool is_temporary(const std::string& name) {
  return name.find(".part-") != std::string::npos;
}

void sweep_temporaries(const ModelFolder& folder) {
  std::error_code ignored;
  for (const fs::path& place : {folder.path(), folder.pieces_path(), folder.shards_path()}) {
    for (const fs::path& file : entries_of(place)) {
      if (is_temporary(file.filename().native())) fs::remove(file, ignored);
    }
  }
}

Result<PieceDigest> digest_of_file(const fs::path& path, const model::ByteProgress& progress) {
  ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::open(path));
  return model::hash_content(file, progress);
}

bool is_container_name(const ModelFolder& folder, const fs::path& path) {
  return path == folder.table_path() ||
         ModelFolder::shard_layers(path.filename().native()).has_value();
}

}  // namespace

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string size_text(std::uint64_t bytes) {
  struct Unit {
    std::uint64_t bytes;
    std::string_view name;
  };
  constexpr std::array<Unit, 3> kUnits = {
      {{1'000'000'000, "GB"}, {1'000'000, "MB"}, {1'000, "kB"}}};
  for (const Unit& unit : kUnits) {
    if (bytes < unit.bytes) continue;
    return fmt::format("{:.1f} {}", static_cast<double>(bytes) / static_cast<double>(unit.bytes),
                       unit.name);
  }
  return fmt::format("{} bytes", bytes);
}

StoreState::StoreState(fs::path models_folder, FileLock lock, StoreOptions options)
    : models_path(std::move(models_folder)), lock_(std::move(lock)), options_(std::move(options)) {}

Result<void> StoreState::load() {
  const MutexLock work(working);
  for (const fs::path& path : entries_of(models_path)) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) continue;
    if (path.filename().native().find(kRemoved) != std::string::npos) {
      fs::remove_all(path, ignored);
      continue;
    }
    // A folder that isn't a model, or no longer, stays until gc(): it may hold many gigabytes.
    if (const auto loaded = load_model(path); !loaded) {
      kLog.warn("model_unreadable",
                {{"folder", path.native()}, {"error", loaded.error().message()}});
    }
  }
  return {};
}

Result<void> StoreState::load_model(const fs::path& path) {
  ASSIGN_OR_RETURN(ModelFolder folder, ModelFolder::load(path));
  const auto model = std::make_shared<StoredModel>(std::move(folder));
  sweep_temporaries(model->folder);
  load_raw(*model);
  load_containers(*model);
  load_sources(*model);
  add(model);
  return {};
}

void StoreState::load_raw(StoredModel& model) {
  for (const fs::path& file : entries_of(model.folder.pieces_path())) {
    const PieceDigest digest{file.filename().native()};
    const auto index = model.folder.index_of(digest);
    if (!index) continue;
    const auto stamp = stamp_of(file);
    if (stamp && stamp->bytes == model.folder.entry().pieces[*index].bytes) {
      raw_came(model, digest);
    } else {
      report(model, *index, file);
      std::error_code ignored;
      fs::remove(file, ignored);
    }
  }
}

void StoreState::load_containers(StoredModel& model) {
  for (const fs::path& file : entries_of(model.folder.shards_path())) {
    if (!is_container_name(model.folder, file)) continue;
    if (const auto opened = reopen(model, file); !opened) {
      kLog.warn("shard_unreadable", {{"file", file.native()}, {"error", opened.error().message()}});
    }
  }
}

void StoreState::load_sources(StoredModel& model) {
  const auto sources = read_sources(model.folder);
  if (!sources) {
    kLog.warn("sources_unreadable", {{"error", sources.error().message()}});
    return;
  }
  for (const SourceFile& source : *sources) {
    auto opened = open_source(model.folder, source);
    if (opened) {
      add_container(model, std::move(*opened));
    } else {
      kLog.warn("source_unusable", {{"error", opened.error().message()}});
    }
  }
}

Result<std::shared_ptr<StoredModel>> StoreState::find_locked(const ModelId& model) const {
  const auto found = models_.find(model);
  if (found == models_.end()) {
    return fail(ErrorCode::kNotFound, fmt::format("model {} is not in this machine's store",
                                                  ModelFolder::name_of(model)));
  }
  return found->second;
}

Result<std::shared_ptr<StoredModel>> StoreState::find(const ModelId& model) const {
  const MutexLock guard(mutex);
  return find_locked(model);
}

Result<std::shared_ptr<StoredModel>> StoreState::take_out(const ModelId& model) {
  const MutexLock guard(mutex);
  auto found = find_locked(model);
  models_.erase(model);
  return found;
}

std::vector<std::shared_ptr<StoredModel>> StoreState::all() const {
  const MutexLock guard(mutex);
  std::vector<std::shared_ptr<StoredModel>> result;
  for (const auto& [id, model] : models_) result.push_back(model);
  return result;
}

HeldFiles StoreState::files_of(const StoredModel& model) const {
  const MutexLock guard(mutex);
  return model.files;
}

void StoreState::add(std::shared_ptr<StoredModel> model) {
  const MutexLock guard(mutex);
  const ModelId id = model->folder.id();
  models_[id] = std::move(model);
}

bool StoreState::has(const PieceDigest& digest) const {
  const MutexLock guard(mutex);
  return std::any_of(models_.begin(), models_.end(), [&](const auto& item) {
    const StoredModel& model = *item.second;
    const auto index = model.folder.index_of(digest);
    if (!index) return false;
    if (model.files.raw.contains(digest)) return true;
    return std::any_of(model.files.containers.begin(), model.files.containers.end(),
                       [&](const auto& container) { return container->find(*index) != nullptr; });
  });
}

Result<std::unique_ptr<ByteSource>> StoreState::content(const PieceDigest& digest) const {
  for (const auto& model : all()) {
    const auto index = model->folder.index_of(digest);
    if (!index) continue;
    const HeldFiles files = files_of(*model);
    if (files.raw.contains(digest)) {
      auto file = ReadOnlyFile::open(model->folder.piece_path(digest));
      if (file) return std::make_unique<ReadOnlyFile>(std::move(*file));
    }
    for (const auto& container : files.containers) {
      const model::HeldPiece* const held = container->find(*index);
      if (held != nullptr) return content_of(model->folder, *container, *held);
    }
  }
  return fail(ErrorCode::kNotFound, fmt::format("piece {} is not on this machine", digest.value));
}

void StoreState::refresh(StoredModel& model) {
  const HeldFiles files = files_of(model);
  for (const PieceDigest& digest : files.raw) {
    const fs::path path = model.folder.piece_path(digest);
    const std::size_t index = *model.folder.index_of(digest);
    const auto stamp = stamp_of(path);
    if (stamp && stamp->bytes == model.folder.entry().pieces[index].bytes) continue;
    report(model, index, path);
    drop_raw(model, digest);
  }
  for (const auto& container : files.containers) {
    if (container->kind == ContainerKind::kSource) {
      refresh_source(model, *container);
    } else if (!seal_intact(container->path)) {
      if (const auto opened = reopen(model, container->path); !opened) {
        kLog.warn("shard_unreadable",
                  {{"file", container->path.native()}, {"error", opened.error().message()}});
      }
    }
  }
}

// The list says what the file was; if it is that no more, it is no source.
void StoreState::refresh_source(StoredModel& model, const Container& source) {
  const auto sources = read_sources(model.folder);
  const auto stamps = stamps_of(*source.file);
  const bool same = sources && stamps &&
                    std::any_of(sources->begin(), sources->end(), [&](const SourceFile& listed) {
                      return listed.path == source.path && listed.stamps == *stamps;
                    });
  if (same) return;
  kLog.warn("source_changed", {{"file", source.path.native()}});
  forget_container(model, source.path);
}

Result<void> StoreState::reopen(StoredModel& model, const fs::path& path) {
  auto opened = open_container(model.folder, path);
  forget_container(model, path);
  if (!opened) return fail(std::move(opened).error());
  for (const std::size_t piece : opened->damaged) report(model, piece, path);
  if (opened->container) add_container(model, std::move(*opened->container));
  return {};
}

void StoreState::forget_container(StoredModel& model, const fs::path& path) {
  const MutexLock guard(mutex);
  std::erase_if(model.files.containers,
                [&](const auto& container) { return container->path == path; });
}

void StoreState::add_container(StoredModel& model, Container container) {
  const MutexLock guard(mutex);
  model.files.containers.push_back(std::make_shared<const Container>(std::move(container)));
}

void StoreState::raw_came(StoredModel& model, const PieceDigest& digest) {
  const MutexLock guard(mutex);
  model.files.raw.insert(digest);
}

void StoreState::raw_verified(const PieceDigest& digest, const FileStamp& stamp) {
  const MutexLock guard(mutex);
  verified_[digest] = stamp;
}

void StoreState::drop_raw(StoredModel& model, const PieceDigest& digest) {
  {
    const MutexLock guard(mutex);
    model.files.raw.erase(digest);
    verified_.erase(digest);
  }
  std::error_code ignored;
  fs::remove(model.folder.piece_path(digest), ignored);
}

Result<bool> StoreState::raw_is_good(StoredModel& model, const PieceDigest& digest,
                                     const model::ByteProgress& progress) {
  const fs::path path = model.folder.piece_path(digest);
  const auto stamp = stamp_of(path);
  {
    const MutexLock guard(mutex);
    const auto known = verified_.find(digest);
    if (stamp && known != verified_.end() && known->second == *stamp) return true;
  }
  const auto found = digest_of_file(path, progress);
  if (!found && found.error().code() == ErrorCode::kCancelled) return fail(found.error());
  if (found && stamp && *found == digest) {
    raw_verified(digest, *stamp);
    return true;
  }
  report(model, *model.folder.index_of(digest), path);
  std::error_code ignored;
  fs::rename(path, path.native() + ".damaged", ignored);
  drop_raw(model, digest);
  return false;
}

void StoreState::report(const StoredModel& model, std::size_t piece, const fs::path& file) {
  kLog.warn("piece_damaged", {{"piece", model.folder.piece_title(piece)}, {"file", file.native()}});
  const MutexLock guard(mutex);
  damage.push_back({model.folder.id(), model.folder.entry().pieces[piece].name,
                    model.folder.digest(piece), file});
}

bool StoreState::start_writing(const PieceDigest& digest) {
  const MutexLock guard(mutex);
  return writing_.insert(digest).second;
}

void StoreState::stop_writing(const PieceDigest& digest) {
  const MutexLock guard(mutex);
  writing_.erase(digest);
}

bool StoreState::is_written(const PieceDigest& digest) const {
  const MutexLock guard(mutex);
  return writing_.contains(digest);
}

std::uint64_t StoreState::free_bytes() const {
  if (options_.free_bytes) return options_.free_bytes(models_path);
  std::error_code error;
  const fs::space_info space = fs::space(models_path, error);
  return error ? UINT64_MAX : space.available;
}

}  // namespace salvage::store
