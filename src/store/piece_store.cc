// Models and pieces: the functions of PieceStore that take them in and give them out. Stages are in
// stage_maker.cc, verifying and sweeping in store_care.cc.

#include "store/piece_store.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "model/shard.h"
#include "store/store_state.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;

Result<fs::path> absolute_path(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::absolute(path, error);
  if (error) return fail(ErrorCode::kNotFound, path.native() + ": " + error.message());
  return result.lexically_normal();
}

Result<model::Gguf> open_model_file(const fs::path& path) {
  ASSIGN_OR_RETURN(model::Gguf file, model::Gguf::open(path));
  ASSIGN_OR_RETURN(const auto facts, model::read_shard_facts(file));
  if (facts) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is a shard of a model; give the model's own file", path.native()));
  }
  return file;
}

// Fails if the file was written to while it was hashed.
Result<void> register_source(StoreState& state, StoredModel& model, const SourceFile& source) {
  ASSIGN_OR_RETURN(Container container, open_source(model.folder, source));
  ASSIGN_OR_RETURN(std::vector<SourceFile> sources, read_sources(model.folder));
  std::erase_if(sources, [&](const SourceFile& other) { return other.path == source.path; });
  sources.push_back(source);
  RETURN_IF_ERROR(write_sources(model.folder, sources));
  state.forget_container(model, source.path);
  state.add_container(model, std::move(container));
  return {};
}

// The model of which this file, unchanged, is a source already.
std::shared_ptr<StoredModel> known_source(const StoreState& state, const SourceFile& file) {
  for (const auto& model : state.all()) {
    const auto sources = read_sources(model->folder);
    if (!sources) continue;
    for (const SourceFile& source : *sources) {
      if (source.path == file.path && source.stamps == file.stamps && source.damaged.empty()) {
        return model;
      }
    }
  }
  return nullptr;
}

std::string file_title(const fs::path& path) {
  return path.stem().native();
}

}  // namespace

std::uint64_t StageNeeds::missing_bytes() const {
  std::uint64_t sum = 0;
  for (const model::PieceEntry& piece : missing) sum += piece.bytes;
  return sum;
}

PieceStore::PieceStore(std::unique_ptr<StoreState> state) : state_(std::move(state)) {}
PieceStore::~PieceStore() = default;

Result<std::unique_ptr<PieceStore>> PieceStore::open(const fs::path& root, StoreOptions options) {
  const fs::path models = root / "models";
  std::error_code error;
  fs::create_directories(models, error);
  if (error) {
    return fail(ErrorCode::kPermissionDenied,
                fmt::format("cannot create the folder {}: {}; choose another data folder (--data)",
                            models.native(), error.message()));
  }
  ASSIGN_OR_RETURN(FileLock lock, FileLock::take(models / "lock"));
  auto state = std::make_unique<StoreState>(models, std::move(lock), std::move(options));
  RETURN_IF_ERROR(state->load());
  return std::unique_ptr<PieceStore>(new PieceStore(std::move(state)));
}

Result<ModelId> PieceStore::import_model(const fs::path& file, const std::string& name,
                                         const StoreProgress& progress) {
  ASSIGN_OR_RETURN(const fs::path path, absolute_path(file));
  ASSIGN_OR_RETURN(const model::Gguf gguf, open_model_file(path));
  SourceFile source{path, {}, {}};
  ASSIGN_OR_RETURN(source.stamps, stamps_of(gguf));
  if (const auto known = known_source(*state_, source)) return known->folder.id();
  const std::string title = name.empty() ? file_title(path) : name;
  model::Progress step;
  if (progress) step = [&](double fraction) { return progress("hashing " + title, fraction); };
  ASSIGN_OR_RETURN(const auto catalogued, model::catalogue_model(gguf, title, step));
  RETURN_IF_ERROR(put_model(catalogued.entry, catalogued.skeleton));
  ASSIGN_OR_RETURN(const auto model, state_->find(catalogued.entry.id()));
  const MutexLock work(state_->working);
  RETURN_IF_ERROR(register_source(*state_, *model, source));
  return model->folder.id();
}

Result<void> PieceStore::put_model(const model::CatalogueEntry& entry,
                                   const std::string& skeleton) {
  const MutexLock work(state_->working);
  if (state_->find(entry.id())) return {};
  ASSIGN_OR_RETURN(ModelFolder folder, ModelFolder::create(state_->models_path, entry, skeleton));
  // Loaded from the disk rather than kept: a folder that lost its entry may hold pieces.
  return state_->load_model(folder.path());
}

Result<void> PieceStore::add_source(const ModelId& id, const fs::path& file,
                                    const StoreProgress& progress) {
  ASSIGN_OR_RETURN(const auto model, state_->find(id));
  const ModelFolder& folder = model->folder;
  ASSIGN_OR_RETURN(const fs::path path, absolute_path(file));
  ASSIGN_OR_RETURN(model::Gguf gguf, open_model_file(path));
  SourceFile source{path, {}, {}};
  ASSIGN_OR_RETURN(source.stamps, stamps_of(gguf));
  Container container;
  container.kind = ContainerKind::kSource;
  container.path = path;
  container.file = std::make_shared<const model::Gguf>(std::move(gguf));
  container.held = model::pieces_in_file(folder.pieces(), *container.file);
  std::uint64_t done = 0;
  const model::ByteProgress step = [&](std::uint64_t more) {
    done += more;
    return !progress ||
           progress("hashing " + folder.entry().name,
                    static_cast<double>(done) / static_cast<double>(folder.entry().bytes()));
  };
  ASSIGN_OR_RETURN(const auto damaged, damaged_pieces(folder, container, step));
  if (container.held.size() < folder.pieces().size() || !damaged.empty()) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format(
            "{} is not the model {}, or it is damaged{}", path.native(), folder.entry().name,
            damaged.empty() ? std::string() : ": " + folder.entry().pieces[damaged[0]].name));
  }
  const MutexLock work(state_->working);
  return register_source(*state_, *model, source);
}

Result<ModelId> PieceStore::model_of(const fs::path& file) const {
  ASSIGN_OR_RETURN(const fs::path path, absolute_path(file));
  std::vector<std::pair<ModelId, SourceFile>> found;
  for (const auto& model : state_->all()) {
    const auto sources = read_sources(model->folder);
    if (!sources) continue;
    for (const SourceFile& source : *sources) {
      if (source.path == path) found.emplace_back(model->folder.id(), source);
    }
  }
  if (found.empty()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("no model was loaded from {} on this machine", path.native()));
  }
  if (found.size() == 1) return found.front().first;
  ASSIGN_OR_RETURN(const model::Gguf gguf, open_model_file(path));
  ASSIGN_OR_RETURN(const auto stamps, stamps_of(gguf));
  for (const auto& [model, source] : found) {
    if (source.stamps == stamps) return model;
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} was changed, and several models were loaded from it before; give the "
                          "model's name or id",
                          path.native()));
}

std::vector<model::CatalogueEntry> PieceStore::models() const {
  std::vector<model::CatalogueEntry> entries;
  for (const auto& model : state_->all()) entries.push_back(model->folder.entry());
  return entries;
}

Result<model::CatalogueEntry> PieceStore::entry(const ModelId& id) const {
  ASSIGN_OR_RETURN(const auto model, state_->find(id));
  return model->folder.entry();
}

Result<std::int64_t> PieceStore::known_since_s(const ModelId& id) const {
  ASSIGN_OR_RETURN(const auto model, state_->find(id));
  return model->folder.made_s();
}

Result<std::string> PieceStore::skeleton(const ModelId& id) const {
  ASSIGN_OR_RETURN(const auto model, state_->find(id));
  return model->folder.read_skeleton();
}

Result<std::shared_ptr<const model::Gguf>> PieceStore::metadata(const ModelId& id) const {
  ASSIGN_OR_RETURN(const auto model, state_->find(id));
  return model->folder.metadata();
}

bool PieceStore::has(const PieceDigest& digest) const {
  return state_->has(digest);
}

std::vector<PieceDigest> PieceStore::inventory(const ModelId& id) const {
  std::vector<PieceDigest> here;
  const auto model = state_->find(id);
  if (!model) return here;
  for (const model::PieceEntry& piece : (*model)->folder.entry().pieces) {
    if (state_->has(piece.digest)) here.push_back(piece.digest);
  }
  return here;
}

Result<std::unique_ptr<ByteSource>> PieceStore::reader(const PieceDigest& digest) const {
  return state_->content(digest);
}

Result<std::unique_ptr<PieceWriter>> PieceStore::begin_fetch(const PieceDigest& digest) {
  for (const auto& model : state_->all()) {
    const ModelFolder& folder = model->folder;
    const auto index = folder.index_of(digest);
    if (!index) continue;
    if (!state_->start_writing(digest)) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("{} is being fetched already", folder.piece_title(*index)));
    }
    const auto released = [state = state_.get(), model, digest](bool finished) {
      const auto stamp = stamp_of(model->folder.piece_path(digest));
      if (finished && stamp) {
        state->raw_verified(digest, *stamp);
        state->raw_came(*model, digest);
      }
      state->stop_writing(digest);
    };
    auto writer = PieceWriter::open({.part = folder.part_path(digest),
                                     .final_path = folder.piece_path(digest),
                                     .name = folder.piece_title(*index),
                                     .digest = digest,
                                     .bytes = folder.entry().pieces[*index].bytes},
                                    released);
    if (!writer) state_->stop_writing(digest);
    return writer;
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("no model of this machine has a piece {}", digest.value));
}

}  // namespace salvage::store
