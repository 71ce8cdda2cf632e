#pragma once

// A model cut into pieces, the unit of weights that is stored, moved and verified: the embedding
// table, each layer, the output matrix, and what every shard shares. A piece's content is canonical
// (the same whatever file it is read from and whatever the split): for each of its tensors, by
// rising name, one line "name type dimension dimension...\n" without "blk.7.", then the data.
//
// Layers that only guess ahead (nextn) are pieces too, though no stage needs them. Nothing here
// writes. Thread rule: everything may be used from several threads at once.
// Failure: `corrupt` for models that cannot be cut into pieces, else what the source says.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/ids.h"
#include "base/result.h"
#include "model/gguf.h"

namespace salvage::model {

// Called from the working thread with the bytes done since the last call; false = stop.
using ByteProgress = std::function<bool(std::uint64_t bytes_more)>;

enum class PieceKind { kEmbedding, kLayer, kOutput, kShared };

struct Piece {
  PieceKind kind = PieceKind::kShared;
  std::uint32_t layer = 0;                 // only of layers
  std::vector<const TensorInfo*> tensors;  // by rising name; point into the model
  std::uint64_t bytes = 0;                 // of its content
  std::string name() const;                // "embedding", "layer 7", "output", "shared"
};

// In the order in which they count everywhere: embedding, layers, output, shared. Kinds of which a
// model has no tensor are left out. The model must outlive the result.
Result<std::vector<Piece>> list_pieces(const Gguf& model);

// A piece as some file holds it: of the model, or a shard, where layers have other numbers.
struct HeldPiece {
  std::size_t index = 0;                  // in list_pieces()
  std::vector<const TensorInfo*> places;  // in the file, one a tensor of the piece
};

// Pieces that are whole in a file which names tensors as the model does: the model's own file, or
// its embedding table.
std::vector<HeldPiece> pieces_in_file(std::span<const Piece> pieces, const Gguf& file);

// Pieces that are whole in a shard of these layers. `pieces` are those of `model`. A shard's zeroed
// tensors are no content, also where they look like it.
Result<std::vector<HeldPiece>> pieces_in_shard(const Gguf& model, std::span<const Piece> pieces,
                                               LayerRange layers, const Gguf& shard);

// Indices, rising, of the pieces that the stage of these layers is made of: what is copied into its
// shard and, for the first, its embedding table. Fails as write_shard() does.
Result<std::vector<std::size_t>> needed_pieces(const Gguf& model, std::span<const Piece> pieces,
                                               LayerRange layers);

// The content of one piece, readable from any offset.
class PieceContent final : public ByteSource {
 public:
  // `places` as in HeldPiece. Owners of `file`: this content and whoever else reads from it.
  PieceContent(const Piece& piece, std::shared_ptr<const Gguf> file,
               std::span<const TensorInfo* const> places);

  std::uint64_t size() const override { return bytes_; }
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> into) const override;

 private:
  struct Segment {
    std::uint64_t begin = 0;  // of its line
    std::string line;
    const TensorInfo* place = nullptr;
  };
  Result<std::uint64_t> read_some(std::uint64_t offset, std::span<std::byte> into) const;

  std::shared_ptr<const Gguf> file_;
  std::vector<Segment> segments_;
  std::uint64_t bytes_ = 0;
};

// Where in a piece's content the data of its tensor `index` begins.
std::uint64_t data_offset_in_piece(const Piece& piece, std::size_t index);

// SHA-256 of all bytes of `content`; `cancelled` when the progress callback says so.
Result<PieceDigest> hash_content(const ByteSource& content, const ByteProgress& progress = {});

}  // namespace salvage::model
