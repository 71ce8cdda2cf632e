// Looking after what lies on the disk: hashing all of it, removing models, sweeping what nobody
// needs, counting.

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "store/seal.h"
#include "store/store_state.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;

std::uint64_t bytes_of(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

std::uint64_t tree_bytes(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    bytes += bytes_of(entry->path());
  }
  return bytes;
}

// In one walk: files come and go meanwhile.
ModelUsage usage_of(const StoredModel& model) {
  const ModelFolder& folder = model.folder;
  ModelUsage usage{.model = folder.id(), .name = folder.entry().name};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder.path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& file = entry->path();
    const bool is_piece = file.parent_path() == folder.pieces_path();
    std::uint64_t& sum = is_piece && file.extension() == ".part"      ? usage.partial_bytes
                         : is_piece                                   ? usage.raw_bytes
                         : file.parent_path() == folder.shards_path() ? usage.shard_bytes
                                                                      : usage.other_bytes;
    sum += bytes_of(file);
  }
  return usage;
}

// Out of the way in one step; what is left of it is swept at the next start. Whoever still makes
// something of the model fails, or makes it in vain.
Result<void> remove_model(StoreState& state, const ModelId& id) {
  ASSIGN_OR_RETURN(const auto model, state.take_out(id));
  const fs::path& folder = model->folder.path();
  fs::path away = folder;
  away += ".removed";
  std::error_code error;
  fs::remove_all(away, error);
  fs::rename(folder, away, error);
  if (error) {
    state.add(model);
    return fail(ErrorCode::kPermissionDenied,
                fmt::format("cannot remove {}: {}", folder.native(), error.message()));
  }
  fs::remove_all(away, error);
  return {};
}

// Hashes all files of one model and sets aside what is damaged.
class Verification {
 public:
  Verification(StoreState& state, StoredModel& model, const StoreProgress& progress)
      : state_(state), model_(model), files_(state.files_of(model)), progress_(progress) {
    const auto& pieces = model.folder.entry().pieces;
    for (const PieceDigest& digest : files_.raw) {
      bytes_total_ += pieces[*model.folder.index_of(digest)].bytes;
    }
    for (const auto& container : files_.containers) {
      for (const auto& held : container->held) bytes_total_ += pieces[held.index].bytes;
      if (is_sealed(*container)) bytes_total_ += bytes_of(container->path);
    }
  }

  Result<void> run() {
    const model::ByteProgress step = [this](std::uint64_t more) { return advance(more); };
    for (const PieceDigest& digest : files_.raw) {
      // Whatever this run believes of it: the disk is what is in question.
      state_.raw_verified(digest, {});
      RETURN_IF_ERROR(state_.raw_is_good(model_, digest, step));
    }
    for (const auto& container : files_.containers) {
      ASSIGN_OR_RETURN(const auto damaged, damaged_pieces(model_.folder, *container, step));
      bool good = damaged.empty();
      // A shard has more in it than pieces.
      if (good && is_sealed(*container)) {
        ASSIGN_OR_RETURN(good, content_is_sealed(container->path, step));
      }
      if (!good) RETURN_IF_ERROR(set_aside(*container, damaged));
    }
    return {};
  }

 private:
  static bool is_sealed(const Container& container) {
    return container.kind != ContainerKind::kSource && container.whole;
  }

  bool advance(std::uint64_t more) {
    bytes_done_ += more;
    return !progress_ ||
           progress_(model_.folder.entry().name,
                     static_cast<double>(bytes_done_) / static_cast<double>(bytes_total_));
  }

  Result<void> set_aside(const Container& container, const std::vector<std::size_t>& damaged) {
    for (const std::size_t piece : damaged) state_.report(model_, piece, container.path);
    if (container.kind == ContainerKind::kSource) return distrust(container, damaged);
    RETURN_IF_ERROR(mark_damaged(model_.folder, container.path, damaged));
    return state_.reopen(model_, container.path);
  }

  // A file of the user's: nothing is changed in it.
  Result<void> distrust(const Container& container, const std::vector<std::size_t>& damaged) {
    ASSIGN_OR_RETURN(std::vector<SourceFile> sources, read_sources(model_.folder));
    for (SourceFile& source : sources) {
      if (source.path != container.path) continue;
      for (const std::size_t piece : damaged) {
        source.damaged.push_back(model_.folder.digest(piece));
      }
    }
    RETURN_IF_ERROR(write_sources(model_.folder, sources));
    Container rest = container;
    std::erase_if(rest.held, [&](const model::HeldPiece& held) {
      return std::find(damaged.begin(), damaged.end(), held.index) != damaged.end();
    });
    state_.forget_container(model_, container.path);
    state_.add_container(model_, std::move(rest));
    return {};
  }

  StoreState& state_;
  StoredModel& model_;
  const HeldFiles files_;
  const StoreProgress& progress_;
  std::uint64_t bytes_total_ = 0;
  std::uint64_t bytes_done_ = 0;
};

// One run of gc().
class Sweep {
 public:
  Sweep(StoreState& state, const GcOptions& options) : state_(state), options_(options) {}

  Result<GcReport> run() {
    sweep_strangers();
    for (const auto& model : state_.all()) {
      const auto kept = options_.keep.find(model->folder.id());
      RETURN_IF_ERROR(sweep_model(*model, kept == options_.keep.end() ? nullptr : &kept->second));
    }
    RETURN_IF_ERROR(evict());
    return std::move(report_);
  }

 private:
  void drop(const fs::path& path) {
    report_.bytes_freed += bytes_of(path);
    report_.removed.push_back(path.native());
    std::error_code ignored;
    if (!options_.dry_run) fs::remove(path, ignored);
  }

  // Folders that are no model of ours, or no longer.
  void sweep_strangers() {
    std::set<fs::path> known;
    for (const auto& model : state_.all()) known.insert(model->folder.path());
    for (const fs::path& path : entries_of(state_.models_path)) {
      std::error_code ignored;
      if (!fs::is_directory(path, ignored) || known.contains(path)) continue;
      report_.bytes_freed += tree_bytes(path);
      report_.removed.push_back(path.native());
      if (!options_.dry_run) fs::remove_all(path, ignored);
    }
  }

  Result<void> sweep_model(StoredModel& model, const KeptModel* kept) {
    std::set<PieceDigest> wanted;
    bool all_made = true;
    if (kept != nullptr) {
      wanted = kept->pieces;
      for (const LayerRange layers : kept->layers) {
        ASSIGN_OR_RETURN(const bool made, add_wanted(model, layers, wanted));
        all_made = all_made && made;
      }
      // A shard of other layers may hold what a kept one is still to be made of.
      if (all_made) sweep_shards(model, *kept);
    }
    sweep_pieces(model, kept, wanted);
    return {};
  }

  // What must be at hand for a stage that isn't made yet; says whether it is.
  Result<bool> add_wanted(const StoredModel& model, LayerRange layers,
                          std::set<PieceDigest>& wanted) const {
    const ModelFolder& folder = model.folder;
    const HeldFiles files = state_.files_of(model);
    const fs::path shard = folder.shard_path(layers);
    const bool made = std::any_of(
        files.containers.begin(), files.containers.end(),
        [&](const auto& container) { return container->path == shard && container->whole; });
    if (made) return true;
    ASSIGN_OR_RETURN(const auto needed,
                     model::needed_pieces(*folder.metadata(), folder.pieces(), layers));
    for (const std::size_t index : needed) wanted.insert(folder.digest(index));
    return false;
  }

  void sweep_shards(StoredModel& model, const KeptModel& kept) {
    std::set<fs::path> stay;
    for (const LayerRange layers : kept.layers) {
      stay.insert(model.folder.shard_path(layers));
      if (layers.begin == 0) stay.insert(model.folder.table_path());
    }
    for (const fs::path& file : entries_of(model.folder.shards_path())) {
      // What stands beside a shard goes with it.
      const bool beside = file.extension() == ".seal" || file.extension() == ".damaged";
      const fs::path container = beside ? file.parent_path() / file.stem() : file;
      if (stay.contains(container)) continue;
      drop(file);
      if (!options_.dry_run) state_.forget_container(model, container);
    }
  }

  // Of models that aren't kept whole pieces stay until there is no room; what was only begun, or is
  // damaged, goes.
  void sweep_pieces(StoredModel& model, const KeptModel* kept,
                    const std::set<PieceDigest>& wanted) {
    for (const fs::path& file : entries_of(model.folder.pieces_path())) {
      const PieceDigest digest{file.stem().native()};
      if (state_.is_written(digest) || wanted.contains(digest)) continue;
      const bool whole = file.extension().empty() && model.folder.index_of(digest).has_value();
      if (whole && kept == nullptr) continue;
      drop(file);
      if (whole && !options_.dry_run) state_.drop_raw(model, digest);
    }
  }

  Result<void> evict() {
    std::vector<std::pair<fs::file_time_type, std::shared_ptr<StoredModel>>> by_use;
    std::uint64_t bytes = 0;
    for (const auto& model : state_.all()) {
      bytes += tree_bytes(model->folder.path());
      std::error_code ignored;
      by_use.emplace_back(fs::last_write_time(model->folder.path(), ignored), model);
    }
    std::sort(by_use.begin(), by_use.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [used, model] : by_use) {
      if (bytes <= options_.bytes_max) break;
      if (options_.keep.contains(model->folder.id())) continue;
      const std::uint64_t freed = tree_bytes(model->folder.path());
      report_.bytes_freed += freed;
      report_.removed.push_back(model->folder.entry().name);
      bytes -= freed;
      if (!options_.dry_run) RETURN_IF_ERROR(remove_model(state_, model->folder.id()));
    }
    return {};
  }

  StoreState& state_;
  const GcOptions& options_;
  GcReport report_;
};

}  // namespace

Result<void> PieceStore::remove(const ModelId& model) {
  return remove_model(*state_, model);
}

Result<std::vector<DamagedPiece>> PieceStore::verify(const ModelId& id,
                                                     const StoreProgress& progress) {
  ASSIGN_OR_RETURN(const auto model, state_->find(id));
  const MutexLock work(state_->working);
  state_->refresh(*model);
  forget_repaired();
  Verification verification(*state_, *model, progress);
  RETURN_IF_ERROR(verification.run());
  std::vector<DamagedPiece> found;
  const MutexLock guard(state_->mutex);
  std::erase_if(state_->damage, [&](const DamagedPiece& piece) {
    if (piece.model == id) found.push_back(piece);
    return piece.model == id;
  });
  return found;
}

// Damage that was found earlier and whose piece is here again, whole, is no news.
void PieceStore::forget_repaired() {
  std::vector<DamagedPiece> found = take_damage();
  std::erase_if(found, [this](const DamagedPiece& piece) { return has(piece.digest); });
  const MutexLock guard(state_->mutex);
  state_->damage.insert(state_->damage.begin(), found.begin(), found.end());
}

std::vector<DamagedPiece> PieceStore::take_damage() {
  const MutexLock guard(state_->mutex);
  return std::exchange(state_->damage, {});
}

Result<GcReport> PieceStore::gc(const GcOptions& options) {
  const MutexLock work(state_->working);
  Sweep sweep(*state_, options);
  return sweep.run();
}

StoreUsage PieceStore::usage() const {
  StoreUsage usage;
  for (const auto& model : state_->all()) usage.models.push_back(usage_of(*model));
  usage.free_bytes = state_->free_bytes();
  return usage;
}

}  // namespace salvage::store
