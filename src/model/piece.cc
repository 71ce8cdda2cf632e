#include "model/piece.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "base/check.h"
#include "base/sha256.h"
#include "model/architecture.h"
#include "model/shard_plan.h"

namespace salvage::model {
namespace {

constexpr std::size_t kHashBytes = std::size_t{1} << 20;

// Tensors that only the last stage computes with.
bool is_output(std::string_view name) {
  return name == "output.weight" || name == "output.bias" || name == "output.scale" ||
         name == "output.input_scale";
}

// Where a piece stands in the order of pieces.
struct Place {
  PieceKind kind = PieceKind::kShared;
  std::uint32_t layer = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

Result<Place> place_of(const TensorInfo& tensor) {
  // A line of the content must have one meaning.
  for (const char byte : tensor.name) {
    if (static_cast<unsigned char>(byte) <= ' ') {
      return fail(ErrorCode::kCorrupt, "a tensor's name has a space or a control character in it");
    }
  }
  if (tensor.name == "token_embd.weight") return Place{PieceKind::kEmbedding};
  if (is_output(tensor.name)) return Place{PieceKind::kOutput};
  const auto layer = layer_of_tensor(tensor.name);
  if (!layer) return Place{PieceKind::kShared};
  if (*layer >= kLayerCountMax) {
    return fail(ErrorCode::kCorrupt, fmt::format("tensor \"{}\" is of a layer beyond the {} that "
                                                 "a model may have",
                                                 tensor.name, kLayerCountMax));
  }
  return Place{PieceKind::kLayer, static_cast<std::uint32_t>(*layer)};
}

// "blk.7.attn_norm.weight" -> "attn_norm.weight"
std::string_view name_in_piece(std::string_view name) {
  if (!layer_of_tensor(name)) return name;
  return name.substr(name.find('.', 4) + 1);
}

std::string line_of(const TensorInfo& tensor) {
  std::string line =
      fmt::format("{} {}", name_in_piece(tensor.name), tensor_type_name(tensor.type));
  for (std::uint32_t i = 0; i < tensor.dimension_count; ++i) {
    line += fmt::format(" {}", tensor.shape[i]);
  }
  line += '\n';
  return line;
}

bool alike(const TensorInfo& a, const TensorInfo& b) {
  return a.type == b.type && a.shape == b.shape && a.dimension_count == b.dimension_count;
}

// The pieces all of whose tensors `find` gives a place.
template <typename Find>
std::vector<HeldPiece> held(std::span<const Piece> pieces, const Find& find) {
  std::vector<HeldPiece> result;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    HeldPiece piece{i, {}};
    for (const TensorInfo* const tensor : pieces[i].tensors) {
      const TensorInfo* const place = find(*tensor);
      if (place == nullptr || !alike(*place, *tensor)) break;
      piece.places.push_back(place);
    }
    if (piece.places.size() == pieces[i].tensors.size()) result.push_back(std::move(piece));
  }
  return result;
}

// Tensors of the model that the shard of these layers copies, and their names there.
using CopiedNames = std::unordered_map<const TensorInfo*, std::string>;

Result<CopiedNames> copied_into_shard(const Gguf& model, LayerRange layers,
                                      const SplitRules& rules) {
  ASSIGN_OR_RETURN(const FilePlan plan, plan_shard(model, layers, rules, std::string(64, '0')));
  CopiedNames names;
  for (const OutputTensor& tensor : plan.tensors) {
    if (const auto* const copied = std::get_if<CopiedData>(&tensor.data)) {
      names.emplace(copied->tensor, tensor.name);
    }
  }
  return names;
}

}  // namespace

std::string Piece::name() const {
  switch (kind) {
    case PieceKind::kEmbedding:
      return "embedding";
    case PieceKind::kLayer:
      return fmt::format("layer {}", layer);
    case PieceKind::kOutput:
      return "output";
    case PieceKind::kShared:
      return "shared";
  }
  return {};
}

Result<std::vector<Piece>> list_pieces(const Gguf& model) {
  std::map<Place, Piece> pieces;
  for (const TensorInfo& tensor : model.tensors()) {
    ASSIGN_OR_RETURN(const Place place, place_of(tensor));
    Piece& piece = pieces[place];
    piece.kind = place.kind;
    piece.layer = place.layer;
    piece.tensors.push_back(&tensor);
    piece.bytes += line_of(tensor).size() + tensor.bytes;
  }
  std::vector<Piece> result;
  for (auto& [place, piece] : pieces) {
    std::sort(piece.tensors.begin(), piece.tensors.end(),
              [](const TensorInfo* a, const TensorInfo* b) {
                return name_in_piece(a->name) < name_in_piece(b->name);
              });
    result.push_back(std::move(piece));
  }
  return result;
}

std::vector<HeldPiece> pieces_in_file(std::span<const Piece> pieces, const Gguf& file) {
  return held(pieces, [&](const TensorInfo& tensor) { return file.find_tensor(tensor.name); });
}

Result<std::vector<HeldPiece>> pieces_in_shard(const Gguf& model, std::span<const Piece> pieces,
                                               LayerRange layers, const Gguf& shard) {
  ASSIGN_OR_RETURN(const SplitRules rules, split_rules(model));
  ASSIGN_OR_RETURN(const CopiedNames names, copied_into_shard(model, layers, rules));
  return held(pieces, [&](const TensorInfo& tensor) -> const TensorInfo* {
    const auto name = names.find(&tensor);
    return name == names.end() ? nullptr : shard.find_tensor(name->second);
  });
}

Result<std::vector<std::size_t>> needed_pieces(const Gguf& model, std::span<const Piece> pieces,
                                               LayerRange layers) {
  ASSIGN_OR_RETURN(const SplitRules rules, split_rules(model));
  ASSIGN_OR_RETURN(const CopiedNames names, copied_into_shard(model, layers, rules));
  const ShardFacts facts = shard_facts(model, layers, rules, std::string(64, '0'));
  const bool has_table = facts.first() && facts.input != ShardInput::kTokens;
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool copied =
        std::any_of(pieces[i].tensors.begin(), pieces[i].tensors.end(),
                    [&](const TensorInfo* tensor) { return names.contains(tensor); });
    if (copied || (has_table && pieces[i].kind == PieceKind::kEmbedding)) result.push_back(i);
  }
  return result;
}

PieceContent::PieceContent(const Piece& piece, std::shared_ptr<const Gguf> file,
                           std::span<const TensorInfo* const> places)
    : file_(std::move(file)) {
  CHECK(places.size() == piece.tensors.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    CHECK(places[i]->bytes == piece.tensors[i]->bytes);
    Segment segment{bytes_, line_of(*piece.tensors[i]), places[i]};
    bytes_ += segment.line.size() + places[i]->bytes;
    segments_.push_back(std::move(segment));
  }
  CHECK(bytes_ == piece.bytes);
}

Result<void> PieceContent::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  if (offset > bytes_ || into.size() > bytes_ - offset) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("bytes {} to {} of a piece that has {}",
                                                         offset, offset + into.size(), bytes_));
  }
  while (!into.empty()) {
    ASSIGN_OR_RETURN(const std::uint64_t done, read_some(offset, into));
    into = into.subspan(done);
    offset += done;
  }
  return {};
}

// Up to the end of a line or of a tensor; says how many bytes.
Result<std::uint64_t> PieceContent::read_some(std::uint64_t offset,
                                              std::span<std::byte> into) const {
  const auto after =
      std::upper_bound(segments_.begin(), segments_.end(), offset,
                       [](std::uint64_t at, const Segment& segment) { return at < segment.begin; });
  const Segment& segment = *std::prev(after);
  const std::uint64_t inside = offset - segment.begin;
  if (inside < segment.line.size()) {
    const auto line = std::as_bytes(std::span(segment.line)).subspan(inside);
    const std::size_t count = std::min(line.size(), into.size());
    std::copy_n(line.begin(), count, into.begin());
    return std::uint64_t{count};
  }
  const std::uint64_t at = inside - segment.line.size();
  const std::uint64_t count = std::min<std::uint64_t>(into.size(), segment.place->bytes - at);
  RETURN_IF_ERROR(file_->read(*segment.place, at, into.first(count)));
  return count;
}

std::uint64_t data_offset_in_piece(const Piece& piece, std::size_t index) {
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < index; ++i) {
    offset += line_of(*piece.tensors[i]).size() + piece.tensors[i]->bytes;
  }
  return offset + line_of(*piece.tensors[index]).size();
}

Result<PieceDigest> hash_content(const ByteSource& content, const ByteProgress& progress) {
  Sha256 hash;
  std::vector<std::byte> buffer(kHashBytes);
  for (std::uint64_t at = 0; at < content.size();) {
    const std::size_t count = std::min<std::uint64_t>(content.size() - at, buffer.size());
    const auto part = std::span(buffer).first(count);
    RETURN_IF_ERROR(content.read_at(at, part));
    hash.update(part);
    at += count;
    if (progress && !progress(count)) return fail(ErrorCode::kCancelled, "stopped on request");
  }
  return PieceDigest{hash.hex()};
}

}  // namespace salvage::model
