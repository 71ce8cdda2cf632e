#pragma once

// What the cluster knows of a model: its skeleton's digest and the digests of its pieces. These
// name it (ModelId), so whoever has an entry of the right id can verify every byte of the model,
// from whomever it comes. An entry travels and is stored as a small JSON text.
//
// Plain values. Failure: `corrupt` for texts that are no entry (from peers: bounded, strict).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"

namespace salvage::model {

// 512 layers and three more, some 130 bytes each, are 70 KB.
inline constexpr std::size_t kEntryBytesMax = std::size_t{256} << 10;
inline constexpr std::size_t kModelNameBytesMax = 255;
inline constexpr std::size_t kPieceCountMax = 512 + 3;
inline constexpr std::uint64_t kPieceBytesMax = std::uint64_t{1} << 50;

struct PieceEntry {
  std::string name;  // Piece::name()
  PieceDigest digest;
  std::uint64_t bytes = 0;  // of its canonical content
  friend bool operator==(const PieceEntry&, const PieceEntry&) = default;
};

struct CatalogueEntry {
  std::string name;          // for people; not part of the id
  std::string model_digest;  // model/digest.h; shards carry it. Not part of the id
  PieceDigest skeleton;
  std::uint64_t skeleton_bytes = 0;
  std::vector<PieceEntry> pieces;  // in the order of list_pieces()

  ModelId id() const;           // SHA-256 over the skeleton's and the pieces' digests in order
  std::uint64_t bytes() const;  // of all pieces
  friend bool operator==(const CatalogueEntry&, const CatalogueEntry&) = default;
};

std::string encode_entry(const CatalogueEntry& entry);
Result<CatalogueEntry> parse_entry(std::string_view text);

// Whether the entry's pieces are, by name and size, those of this skeleton; else `corrupt`.
Result<void> check_entry(const CatalogueEntry& entry, const Gguf& skeleton);

struct CataloguedModel {
  CatalogueEntry entry;
  std::string skeleton;
};

// Reads and hashes the whole model; some minutes for a large one.
Result<CataloguedModel> catalogue_model(const Gguf& model, const std::string& name,
                                        const Progress& progress);

}  // namespace salvage::model
