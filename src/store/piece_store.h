#pragma once

// The weights that this machine has on disk, model by model, as pieces (model/piece.h). It takes
// pieces in, gives them out to other machines, and makes from them the files that a stage loads.
// A piece lies here as a file of its own, inside a shard, or inside a model file elsewhere on this
// machine; who asks for it by its digest needn't know where.
//
//   <root>/models/lock
//   <root>/models/<model id, 32 digits>/catalogue.json   the entry; written last, so a folder
//                                                        without one is not a model yet
//                                       skeleton.gguf    the header (model/skeleton.h)
//                                       vocabulary.gguf
//                                       sources.json     model files elsewhere: path, size, change
//                                       pieces/<digest>  whole and verified
//                                       pieces/<digest>.part      as far as it has come
//                                       pieces/<digest>.damaged   set aside
//                                       shards/layers-a-b.gguf, embeddings.gguf
//                                       shards/*.seal    (store/seal.h)
//                                       shards/*.damaged pieces of that file that are not whole
//
// Every file appears under its name only when it is complete and on the disk, so the program may
// be killed at any moment. A shard whose seal is broken is read again, piece by piece: what is
// whole stays of use, the rest is named and wanted again (stage_needs()). Names from peers never
// become paths.
//
// Thread rule: any thread. What changes files (import_model at its end, put_model, add_source at
// its end, stage_needs, make_stage, verify, gc) happens one after another and so may take minutes;
// everything else never waits for it. One process a root.
//
// Failure: `not_found` names pieces that are missing, `corrupt` pieces that are damaged,
// `resource_exhausted` says how much room is short and where, `unavailable` that another process
// uses the root.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/ids.h"
#include "base/result.h"
#include "model/gguf.h"
#include "model/piece_catalogue.h"
#include "store/piece_writer.h"

namespace salvage::store {

// What is being done, and how far it is; returning false stops with `cancelled`.
using StoreProgress = std::function<bool(std::string_view what, double fraction)>;

// A piece that is not what its digest says, and the file that was read.
struct DamagedPiece {
  ModelId model;
  std::string piece;  // "layer 7"
  PieceDigest digest;
  std::filesystem::path file;
};

// What a stage still needs on this machine.
struct StageNeeds {
  std::vector<model::PieceEntry> missing;  // to fetch
  std::uint64_t resumed_bytes = 0;         // of these, already here in part
  std::uint64_t make_bytes = 0;            // of the shard and the table, if they are to be made
  std::uint64_t free_bytes = 0;            // on the disk
  std::uint64_t missing_bytes() const;
  bool nothing() const { return missing.empty() && make_bytes == 0; }
};

struct StageOrder {
  ModelId model;
  LayerRange layers;
  // Stay as raw pieces even if the shard has them. The others are dropped once it does.
  std::set<PieceDigest> spares;
};

struct StageFiles {
  std::filesystem::path shard;
  std::filesystem::path embedding_table;  // empty: not the first stage, or it embeds by itself
  std::uint64_t made_bytes = 0;           // 0: everything was there
};

struct ModelUsage {
  ModelId model;
  std::string name;
  std::uint64_t raw_bytes = 0;      // pieces as files of their own
  std::uint64_t partial_bytes = 0;  // begun
  std::uint64_t shard_bytes = 0;
  std::uint64_t other_bytes = 0;
  std::uint64_t bytes() const { return raw_bytes + partial_bytes + shard_bytes + other_bytes; }
};

struct StoreUsage {
  std::vector<ModelUsage> models;
  std::uint64_t free_bytes = 0;
};

// What gc() leaves alone: shards of these layers, and raw pieces.
struct KeptModel {
  std::vector<LayerRange> layers;
  std::set<PieceDigest> pieces;
};

struct GcOptions {
  std::map<ModelId, KeptModel> keep;
  // Models that are not in `keep` go as a whole, longest unused first, until this is met.
  std::uint64_t bytes_max = UINT64_MAX;
  bool dry_run = false;
};

struct GcReport {
  std::uint64_t bytes_freed = 0;
  std::vector<std::string> removed;  // files and models, for people
};

// What tests replace.
struct StoreOptions {
  // Free bytes on the disk of a folder; empty = asks the file system.
  std::function<std::uint64_t(const std::filesystem::path&)> free_bytes = {};
};

class StoreState;

class PieceStore {
 public:
  // Sweeps what a killed run left, and reads shards without an intact seal, which may take time.
  static Result<std::unique_ptr<PieceStore>> open(const std::filesystem::path& root,
                                                  StoreOptions options = {});
  ~PieceStore();
  PieceStore(const PieceStore&) = delete;
  PieceStore& operator=(const PieceStore&) = delete;

  // --- models ---

  // Hashes a model file where it lies and makes it a source. Returns at once for a file that is a
  // source already and has not changed. `name` empty = the file's.
  Result<ModelId> import_model(const std::filesystem::path& file, const std::string& name,
                               const StoreProgress& progress);
  // A model that another machine announced. Again for one that is here does nothing.
  Result<void> put_model(const model::CatalogueEntry& entry, const std::string& skeleton);
  // A file of a model that is known already: hashed; `corrupt` if it isn't that model.
  Result<void> add_source(const ModelId& model, const std::filesystem::path& file,
                          const StoreProgress& progress);
  // The model that was imported from this file, which may be gone meanwhile; `not_found` if none
  // was. If several were, one after another, the one that the file holds now.
  Result<ModelId> model_of(const std::filesystem::path& file) const;
  std::vector<model::CatalogueEntry> models() const;
  Result<model::CatalogueEntry> entry(const ModelId& model) const;
  Result<std::string> skeleton(const ModelId& model) const;
  // Unix time at which the store came to know it.
  Result<std::int64_t> known_since_s(const ModelId& model) const;
  // Metadata and tensor list; reading tensor data fails. Owners: the store and the callers.
  Result<std::shared_ptr<const model::Gguf>> metadata(const ModelId& model) const;
  // Does not wait for what is being made of it; that fails then.
  Result<void> remove(const ModelId& model);

  // --- pieces ---

  bool has(const PieceDigest& digest) const;
  std::vector<PieceDigest> inventory(const ModelId& model) const;
  // Stays readable even if the piece is removed meanwhile.
  Result<std::unique_ptr<ByteSource>> reader(const PieceDigest& digest) const;
  // `not_found` for a digest that no model here has, `unavailable` while another writer has it.
  Result<std::unique_ptr<PieceWriter>> begin_fetch(const PieceDigest& digest);

  // --- stages ---

  // Looks at the seals, so damage is found here: it is among the missing, and in take_damage().
  Result<StageNeeds> stage_needs(const ModelId& model, LayerRange layers);
  // `resource_exhausted` if the disk hasn't room for what is missing and for what will be made.
  Result<void> check_room(const ModelId& model, LayerRange layers);
  // The files of a stage, made if they aren't there. All needed pieces must be here.
  Result<StageFiles> make_stage(const StageOrder& order, const StoreProgress& progress);
  Result<std::filesystem::path> vocabulary(const ModelId& model);

  // --- care ---

  // Hashes everything of a model. Damaged pieces are set aside, so stage_needs() wants them again.
  Result<std::vector<DamagedPiece>> verify(const ModelId& model, const StoreProgress& progress);
  // Damage found since the last call by open(), stage_needs() or make_stage().
  std::vector<DamagedPiece> take_damage();
  Result<GcReport> gc(const GcOptions& options);
  StoreUsage usage() const;

 private:
  void forget_repaired();
  explicit PieceStore(std::unique_ptr<StoreState> state);
  std::unique_ptr<StoreState> state_;  // store/store_state.h
};

}  // namespace salvage::store
