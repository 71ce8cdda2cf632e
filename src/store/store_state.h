#pragma once

// What the store knows of its disk, and the lock around it. Inside of the store: piece_store.cc,
// stage_maker.cc and store_care.cc are the functions of PieceStore on top of this.
//
// Thread rule: any thread. Two locks, taken in this order: `working` is held by whoever calls
// load_model(), refresh() or reopen(), and makes, verifies or sweeps files, for as long as that
// takes; `mutex` guards the maps and is never held while a file is read.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "store/container.h"
#include "store/model_folder.h"
#include "store/piece_store.h"

namespace salvage::store {

// What lies in a folder, in order; nothing if it cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

// The files of a model as they were at one moment.
struct HeldFiles {
  std::set<PieceDigest> raw;
  std::vector<std::shared_ptr<const Container>> containers;
};

struct StoredModel {
  explicit StoredModel(ModelFolder model_folder) : folder(std::move(model_folder)) {}
  const ModelFolder folder;
  HeldFiles files;  // guarded by StoreState::mutex
};

class StoreState {
 public:
  StoreState(std::filesystem::path models, FileLock lock, StoreOptions options);

  // Reads the model folders and sweeps what a killed run left.
  Result<void> load();
  Result<void> load_model(const std::filesystem::path& path);

  Result<std::shared_ptr<StoredModel>> find(const ModelId& model) const EXCLUDES(mutex);
  std::vector<std::shared_ptr<StoredModel>> all() const EXCLUDES(mutex);
  HeldFiles files_of(const StoredModel& model) const EXCLUDES(mutex);
  void add(std::shared_ptr<StoredModel> model) EXCLUDES(mutex);
  Result<std::shared_ptr<StoredModel>> take_out(const ModelId& model) EXCLUDES(mutex);

  bool has(const PieceDigest& digest) const EXCLUDES(mutex);
  Result<std::unique_ptr<ByteSource>> content(const PieceDigest& digest) const EXCLUDES(mutex);

  // Looks at every file of a model again: seals, stamps, sizes.
  void refresh(StoredModel& model) EXCLUDES(mutex);
  // Opens the shard or table at a path anew, in place of what was known of it.
  Result<void> reopen(StoredModel& model, const std::filesystem::path& path) EXCLUDES(mutex);
  void forget_container(StoredModel& model, const std::filesystem::path& path) EXCLUDES(mutex);
  void add_container(StoredModel& model, Container container) EXCLUDES(mutex);

  void raw_came(StoredModel& model, const PieceDigest& digest) EXCLUDES(mutex);
  void raw_verified(const PieceDigest& digest, const FileStamp& stamp) EXCLUDES(mutex);
  void drop_raw(StoredModel& model, const PieceDigest& digest) EXCLUDES(mutex);
  // Hashes a raw piece unless this run did so and the file is the same since. A damaged one is set
  // aside and reported; then it says false.
  Result<bool> raw_is_good(StoredModel& model, const PieceDigest& digest,
                           const model::ByteProgress& progress) EXCLUDES(mutex);
  void report(const StoredModel& model, std::size_t piece, const std::filesystem::path& file)
      EXCLUDES(mutex);

  bool start_writing(const PieceDigest& digest) EXCLUDES(mutex);
  void stop_writing(const PieceDigest& digest) EXCLUDES(mutex);
  bool is_written(const PieceDigest& digest) const EXCLUDES(mutex);
  std::uint64_t free_bytes() const;

  const std::filesystem::path models_path;
  Mutex working;
  Mutex vocabularies;  // who makes one: small, so nobody waits long, whatever else is being made
  mutable Mutex mutex;
  std::vector<DamagedPiece> damage GUARDED_BY(mutex);

 private:
  void load_raw(StoredModel& model);
  void load_containers(StoredModel& model);
  void load_sources(StoredModel& model);
  void refresh_source(StoredModel& model, const Container& source);

  Result<std::shared_ptr<StoredModel>> find_locked(const ModelId& model) const REQUIRES(mutex);

  FileLock lock_;
  StoreOptions options_;
  std::map<ModelId, std::shared_ptr<StoredModel>> models_ GUARDED_BY(mutex);
  std::set<PieceDigest> writing_ GUARDED_BY(mutex);
  std::map<PieceDigest, FileStamp> verified_ GUARDED_BY(mutex);
};

// "12.3 GB"; for messages.
std::string size_text(std::uint64_t bytes);

}  // namespace salvage::store
