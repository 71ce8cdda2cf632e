#pragma once

// The shards that this machine keeps on disk, made from models that are here. A shard is made once:
// its folder is named by the model's digest and its file by its layers, files appear only when they
// are complete, and a file that is not what would be made now is made again.
// The cache has a size limit; what was used longest ago goes first, never what is asked for now.
//
//   <root>/<digest, 32 digits>/layers-0-10.gguf   one shard
//                              embeddings.gguf    the first stage's table
//                              vocabulary.gguf    the coordinator's metadata
//                              *.seal             whether each is still what was made
//                              (store/seal.h)
//
// Thread rule: one thread. Several processes may share a root: each file is made under a temporary
// name and renamed.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/gguf.h"

namespace salvage::store {

// What is being made, and how far it is; returning false stops with `cancelled`.
using CacheProgress = std::function<bool(const std::string& file, double fraction)>;

struct ModelFiles {
  std::filesystem::path vocabulary;
  std::vector<std::filesystem::path> shards;  // one a range, in order
  std::filesystem::path embedding_table;      // empty: the first shard embeds by itself
  std::uint64_t made_bytes = 0;               // 0: everything was there
};

class ShardCache {
 public:
  // `bytes_max` bounds what stays; making one model's shards may need more for a moment.
  ShardCache(std::filesystem::path root, std::uint64_t bytes_max)
      : root_(std::move(root)), bytes_max_(bytes_max) {}

  // All files that a pipeline of `stages` needs. Legal splits only (model/architecture.h).
  Result<ModelFiles> prepare(const model::Gguf& model, const std::vector<LayerRange>& stages,
                             const CacheProgress& progress);
  // The vocabulary alone, for a model that runs whole.
  Result<std::filesystem::path> prepare_vocabulary(const model::Gguf& model);

  // $SALVAGE_CACHE, else $XDG_CACHE_HOME/salvage, else ~/.cache/salvage; /var/cache/salvage for
  // services without a home.
  static std::filesystem::path default_root();

 private:
  // Reads samples of every tensor for the digest: once a start.
  Result<std::filesystem::path> folder_of(const model::Gguf& model);
  static Result<std::filesystem::path> vocabulary_in(const std::filesystem::path& folder,
                                                     const model::Gguf& model);
  Result<void> make_shard(const model::Gguf& model, LayerRange layers,
                          const std::filesystem::path& path, const CacheProgress& progress);
  void evict(const std::filesystem::path& keep);

  std::filesystem::path root_;
  std::uint64_t bytes_max_;
};

}  // namespace salvage::store
