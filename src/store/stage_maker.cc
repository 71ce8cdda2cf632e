// From pieces to the files of a stage. What a stage needs is what its shard would copy
// (model/piece.h); each piece is read from wherever it lies, so that layers which are inside
// yesterday's shard, or in the model's own file, are never fetched.

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "model/shard.h"
#include "model/skeleton.h"
#include "store/seal.h"
#include "store/store_state.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;

// A table's file beside its tensor: some keys.
constexpr std::uint64_t kTableHeaderBytesMax = 4096;

struct StageView {
  LayerRange layers;
  bool shard_here = false;
  bool wants_table = false;
  bool table_here = false;
  std::vector<std::size_t> needed;  // to make what isn't here
  std::uint64_t make_bytes = 0;
};

bool whole_file_here(const HeldFiles& files, const fs::path& path) {
  return std::any_of(files.containers.begin(), files.containers.end(),
                     [&](const auto& file) { return file->path == path && file->whole; });
}

Result<bool> wants_table(const model::Gguf& metadata, LayerRange layers) {
  if (layers.begin != 0) return false;
  ASSIGN_OR_RETURN(const model::ArchitectureRow* const row, model::architecture_row(metadata));
  return (row->treatments & model::kFirstTakesTokens) == 0;
}

Result<StageView> view_stage(const StoreState& state, const StoredModel& model, LayerRange layers) {
  const ModelFolder& folder = model.folder;
  const HeldFiles files = state.files_of(model);
  StageView view;
  view.layers = layers;
  ASSIGN_OR_RETURN(const auto needed,
                   model::needed_pieces(*folder.metadata(), folder.pieces(), layers));
  ASSIGN_OR_RETURN(view.wants_table, wants_table(*folder.metadata(), layers));
  view.shard_here = whole_file_here(files, folder.shard_path(layers));
  view.table_here = view.wants_table && whole_file_here(files, folder.table_path());
  const bool make_table = view.wants_table && !view.table_here;
  for (const std::size_t index : needed) {
    const bool for_table = folder.pieces()[index].kind == model::PieceKind::kEmbedding;
    if (!view.shard_here || (for_table && make_table)) view.needed.push_back(index);
    if (for_table && make_table) {
      view.make_bytes += folder.pieces()[index].bytes + kTableHeaderBytesMax;
    }
  }
  if (!view.shard_here) {
    ASSIGN_OR_RETURN(const std::uint64_t bytes, model::shard_bytes(*folder.metadata(), layers));
    view.make_bytes += bytes;
  }
  return view;
}

StageNeeds needs_of(const StoreState& state, const StoredModel& model, const StageView& view) {
  StageNeeds needs;
  needs.make_bytes = view.make_bytes;
  needs.free_bytes = state.free_bytes();
  std::set<PieceDigest> seen;
  for (const std::size_t index : view.needed) {
    const model::PieceEntry& piece = model.folder.entry().pieces[index];
    if (state.has(piece.digest) || !seen.insert(piece.digest).second) continue;
    needs.missing.push_back(piece);
    std::error_code error;
    const auto begun = fs::file_size(model.folder.part_path(piece.digest), error);
    if (!error) needs.resumed_bytes += std::min<std::uint64_t>(begun, piece.bytes);
  }
  return needs;
}

// Room that begun pieces have taken already, also what they only reserved.
std::uint64_t reserved_bytes(const StoredModel& model, const StageNeeds& needs) {
  std::uint64_t bytes = 0;
  for (const model::PieceEntry& piece : needs.missing) {
    bytes += std::min(disk_bytes(model.folder.part_path(piece.digest)), piece.bytes);
  }
  return bytes;
}

Result<void> check_room_for(const StoreState& state, const StoredModel& model, LayerRange layers,
                            const StageNeeds& needs) {
  const std::uint64_t fetched = needs.missing_bytes() - reserved_bytes(model, needs);
  const std::uint64_t wanted = fetched + needs.make_bytes;
  if (wanted <= needs.free_bytes) return {};
  return fail(
      ErrorCode::kResourceExhausted,
      fmt::format("layers {}-{} of {} need {} on this disk: {} to fetch and {} for the files made "
                  "of it; {} are free in {}, {} are short. Free some space there (`salvage gc`) or "
                  "give this machine fewer layers",
                  layers.begin, layers.end, model.folder.entry().name, size_text(wanted),
                  size_text(fetched), size_text(needs.make_bytes), size_text(needs.free_bytes),
                  state.models_path.native(), size_text(wanted - needs.free_bytes)));
}

std::string names_of(const std::vector<model::PieceEntry>& pieces) {
  constexpr std::size_t kNamesMax = 8;
  std::string names;
  for (std::size_t i = 0; i < pieces.size() && i < kNamesMax; ++i) {
    names += (i == 0 ? "" : ", ") + pieces[i].name;
  }
  if (pieces.size() > kNamesMax) names += fmt::format(" and {} more", pieces.size() - kNamesMax);
  return names;
}

// Raw pieces that this run has not verified yet; `corrupt` if some are not what they should be.
Result<void> verify_raw(StoreState& state, StoredModel& model, const StageView& view,
                        const StoreProgress& progress) {
  const HeldFiles files = state.files_of(model);
  std::uint64_t total = 0;
  for (const std::size_t index : view.needed) total += model.folder.entry().pieces[index].bytes;
  std::uint64_t done = 0;
  const model::ByteProgress step = [&](std::uint64_t more) {
    done += more;
    return !progress || progress("verifying " + model.folder.entry().name,
                                 static_cast<double>(done) / static_cast<double>(total));
  };
  std::vector<model::PieceEntry> damaged;
  for (const std::size_t index : view.needed) {
    const model::PieceEntry& piece = model.folder.entry().pieces[index];
    if (!files.raw.contains(piece.digest)) continue;
    ASSIGN_OR_RETURN(const bool good, state.raw_is_good(model, piece.digest, step));
    if (!good) damaged.push_back(piece);
  }
  if (damaged.empty()) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("of {} on this disk {} is damaged; it must be fetched again",
                          model.folder.entry().name, names_of(damaged)));
}

Result<model::Gguf> open_from_pieces(const StoreState& state, const StoredModel& model,
                                     const StageView& view) {
  const ModelFolder& folder = model.folder;
  ASSIGN_OR_RETURN(const std::string skeleton, folder.read_skeleton());
  model::PieceContents contents(folder.pieces().size());
  for (const std::size_t index : view.needed) {
    ASSIGN_OR_RETURN(contents[index], state.content(folder.digest(index)));
  }
  return model::open_skeleton(skeleton, std::move(contents), folder.entry().name);
}

class StageMaking {
 public:
  StageMaking(StoreState& state, StoredModel& model, const StoreProgress& progress)
      : state_(state), model_(model), progress_(progress) {}

  Result<void> make(const StageView& view) {
    if (view.needed.empty()) return {};
    ASSIGN_OR_RETURN(const model::Gguf pieced, open_from_pieces(state_, model_, view));
    const ModelFolder& folder = model_.folder;
    if (!view.shard_here) {
      const fs::path path = folder.shard_path(view.layers);
      remove_marks(path);
      RETURN_IF_ERROR(model::write_shard(pieced, view.layers, path, options(path)));
      RETURN_IF_ERROR(settle(path));
    }
    if (view.wants_table && !view.table_here) {
      const fs::path path = folder.table_path();
      remove_marks(path);
      RETURN_IF_ERROR(model::write_embedding_table(pieced, path, options(path)));
      RETURN_IF_ERROR(settle(path));
    }
    return {};
  }
  std::uint64_t made_bytes() const { return made_bytes_; }

 private:
  model::ShardOptions options(const fs::path& path) const {
    model::ShardOptions options;
    options.model_digest = model_.folder.entry().model_digest;
    if (progress_) {
      const std::string name = path.filename().native();
      options.progress = [this, name](double fraction) { return progress_(name, fraction); };
    }
    return options;
  }
  // Sealed and believed from here on.
  Result<void> settle(const fs::path& path) {
    RETURN_IF_ERROR(put_seal(path));
    RETURN_IF_ERROR(state_.reopen(model_, path));
    std::error_code ignored;
    made_bytes_ += fs::file_size(path, ignored);
    if (whole_file_here(state_.files_of(model_), path)) return {};
    return fail(ErrorCode::kCorrupt, fmt::format("{} does not read back as it was written; the "
                                                 "disk may be failing",
                                                 path.native()));
  }

  StoreState& state_;
  StoredModel& model_;
  const StoreProgress& progress_;
  std::uint64_t made_bytes_ = 0;
};

// Raw pieces of which a whole shard or the table has the bytes.
void drop_contained(StoreState& state, StoredModel& model, const std::set<PieceDigest>& spares) {
  const HeldFiles files = state.files_of(model);
  for (const auto& container : files.containers) {
    if (container->kind == ContainerKind::kSource || !container->whole) continue;
    for (const model::HeldPiece& held : container->held) {
      const PieceDigest& digest = model.folder.digest(held.index);
      if (files.raw.contains(digest) && !spares.contains(digest)) state.drop_raw(model, digest);
    }
  }
}

void note_use(const ModelFolder& folder) {
  std::error_code ignored;  // Its time of change is its time of use, by which gc() chooses.
  fs::last_write_time(folder.path(), fs::file_time_type::clock::now(), ignored);
}

}  // namespace

Result<StageNeeds> PieceStore::stage_needs(const ModelId& id, LayerRange layers) {
  ASSIGN_OR_RETURN(const auto model, state_->find(id));
  const MutexLock work(state_->working);
  state_->refresh(*model);
  ASSIGN_OR_RETURN(const StageView view, view_stage(*state_, *model, layers));
  return needs_of(*state_, *model, view);
}

Result<void> PieceStore::check_room(const ModelId& id, LayerRange layers) {
  ASSIGN_OR_RETURN(const auto model, state_->find(id));
  ASSIGN_OR_RETURN(const StageView view, view_stage(*state_, *model, layers));
  return check_room_for(*state_, *model, layers, needs_of(*state_, *model, view));
}

Result<StageFiles> PieceStore::make_stage(const StageOrder& order, const StoreProgress& progress) {
  ASSIGN_OR_RETURN(const auto model, state_->find(order.model));
  const MutexLock work(state_->working);
  state_->refresh(*model);
  ASSIGN_OR_RETURN(const StageView view, view_stage(*state_, *model, order.layers));
  RETURN_IF_ERROR(verify_raw(*state_, *model, view, progress));
  const StageNeeds needs = needs_of(*state_, *model, view);
  if (!needs.missing.empty()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{} of {} must be fetched before the stage can be made",
                            names_of(needs.missing), model->folder.entry().name));
  }
  RETURN_IF_ERROR(check_room_for(*state_, *model, order.layers, needs));
  StageMaking making(*state_, *model, progress);
  RETURN_IF_ERROR(making.make(view));
  drop_contained(*state_, *model, order.spares);
  note_use(model->folder);
  StageFiles files;
  files.shard = model->folder.shard_path(order.layers);
  if (view.wants_table) files.embedding_table = model->folder.table_path();
  files.made_bytes = making.made_bytes();
  return files;
}

Result<fs::path> PieceStore::vocabulary(const ModelId& id) {
  ASSIGN_OR_RETURN(const auto model, state_->find(id));
  const MutexLock work(state_->vocabularies);
  const fs::path path = model->folder.vocabulary_path();
  note_use(model->folder);
  if (seal_intact(path)) return path;
  RETURN_IF_ERROR(model::write_vocabulary(*model->folder.metadata(), path));
  RETURN_IF_ERROR(put_seal(path));
  return path;
}

}  // namespace salvage::store
