#pragma once

// The folder of one model under the store's root: where its files stand, and what never changes of
// them, the catalogue entry and the skeleton. Inside of the store (piece_store.h is the interface).
// Failure: `corrupt` for folders whose files don't fit together, `not_found` for ones without.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/gguf.h"
#include "model/piece.h"
#include "model/piece_catalogue.h"

namespace salvage::store {

class ModelFolder {
 public:
  // The folder's name for a model: the first 32 digits, 128 bits, of its id.
  static std::string name_of(const ModelId& id);
  static Result<ModelFolder> load(const std::filesystem::path& path);
  // Checks the skeleton against the entry and writes both, the entry last.
  static Result<ModelFolder> create(const std::filesystem::path& models,
                                    const model::CatalogueEntry& entry,
                                    const std::string& skeleton);

  const std::filesystem::path& path() const { return path_; }
  const ModelId& id() const { return id_; }
  const model::CatalogueEntry& entry() const { return entry_; }
  // Owners: this folder, and who asked the store for the model's metadata.
  const std::shared_ptr<const model::Gguf>& metadata() const { return metadata_; }
  const std::vector<model::Piece>& pieces() const { return pieces_; }  // of metadata()
  // The first piece with this digest; equal layers share one.
  std::optional<std::size_t> index_of(const PieceDigest& digest) const;
  const PieceDigest& digest(std::size_t index) const { return entry_.pieces[index].digest; }

  // "layer 7 of qwen"
  std::string piece_title(std::size_t index) const;

  Result<std::string> read_skeleton() const;
  // Unix time at which it was made; 0: the disk doesn't say.
  std::int64_t made_s() const;
  std::filesystem::path vocabulary_path() const { return path_ / "vocabulary.gguf"; }
  std::filesystem::path sources_path() const { return path_ / "sources.json"; }
  std::filesystem::path pieces_path() const { return path_ / "pieces"; }
  std::filesystem::path shards_path() const { return path_ / "shards"; }
  std::filesystem::path piece_path(const PieceDigest& digest) const;
  std::filesystem::path part_path(const PieceDigest& digest) const;
  std::filesystem::path shard_path(LayerRange layers) const;
  std::filesystem::path table_path() const { return shards_path() / "embeddings.gguf"; }

  // The layers that a shard's file name says.
  static std::optional<LayerRange> shard_layers(const std::string& file_name);

 private:
  ModelFolder() = default;
  static Result<ModelFolder> assemble(const std::filesystem::path& path,
                                      model::CatalogueEntry entry, const std::string& skeleton);

  std::filesystem::path path_;
  ModelId id_;
  model::CatalogueEntry entry_;
  std::shared_ptr<const model::Gguf> metadata_;
  std::vector<model::Piece> pieces_;
  std::map<PieceDigest, std::size_t> index_;
};

// A file of at most `bytes_max`, read whole.
Result<std::string> read_small_file(const std::filesystem::path& path, std::uint64_t bytes_max);
// Whole or not at all.
Result<void> write_small_file(const std::filesystem::path& path, const std::string& bytes);

}  // namespace salvage::store
