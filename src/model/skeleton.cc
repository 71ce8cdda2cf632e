#include "model/skeleton.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "model/gguf_header.h"
#include "model/gguf_writer.h"
#include "model/piece.h"

namespace salvage::model {
namespace {

bool belongs_to_skeleton(std::string_view key) {
  return !key.starts_with("split.") && !key.starts_with("salvage.");
}

// Takes no more than a skeleton may have.
class BoundedSink final : public ByteSink {
 public:
  Result<void> write(std::span<const std::byte> bytes) override {
    if (bytes.size() > kSkeletonBytesMax - bytes_.size()) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("the model's metadata has more than {} bytes", kSkeletonBytesMax));
    }
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// The bytes of a skeleton, borrowed.
class HeaderBytes final : public ByteSource {
 public:
  explicit HeaderBytes(const std::string& bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> into) const override {
    if (offset > size() || into.size() > size() - offset) {
      return fail(ErrorCode::kCorrupt, "the skeleton ends too early");
    }
    std::copy_n(std::as_bytes(std::span(bytes_)).begin() + static_cast<std::ptrdiff_t>(offset),
                into.size(), into.begin());
    return {};
  }

 private:
  const std::string& bytes_;
};

// The data section of a model's file, put together from pieces; the header isn't in it.
class PiecedData final : public ByteSource {
 public:
  struct Tensor {
    std::uint64_t begin = 0;  // in the model's file
    std::uint64_t bytes = 0;
    std::size_t piece = 0;
    std::uint64_t in_piece = 0;
  };

  // `tensors` by rising begin.
  PiecedData(std::vector<Tensor> tensors, std::vector<std::string> names, PieceContents contents)
      : tensors_(std::move(tensors)), names_(std::move(names)), contents_(std::move(contents)) {}

  std::uint64_t size() const override {
    return tensors_.empty() ? 0 : tensors_.back().begin + tensors_.back().bytes;
  }
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> into) const override {
    const auto after =
        std::upper_bound(tensors_.begin(), tensors_.end(), offset,
                         [](std::uint64_t at, const Tensor& tensor) { return at < tensor.begin; });
    if (after == tensors_.begin()) return fail(ErrorCode::kInternal, "not a tensor's data");
    const Tensor& tensor = *std::prev(after);
    const std::uint64_t inside = offset - tensor.begin;
    if (inside > tensor.bytes || into.size() > tensor.bytes - inside) {
      return fail(ErrorCode::kInternal, "not one tensor's data");
    }
    if (tensor.piece >= contents_.size() || contents_[tensor.piece] == nullptr) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("{} is not on this machine", names_[tensor.piece]));
    }
    auto done = contents_[tensor.piece]->read_at(tensor.in_piece + inside, into);
    if (!done) return fail(std::move(done).error().within(names_[tensor.piece]));
    return {};
  }

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::string> names_;  // of the pieces
  PieceContents contents_;
};

std::vector<PiecedData::Tensor> place_data(const std::vector<Piece>& pieces) {
  std::vector<PiecedData::Tensor> tensors;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (std::size_t j = 0; j < pieces[i].tensors.size(); ++j) {
      const TensorInfo& tensor = *pieces[i].tensors[j];
      tensors.push_back({tensor.offset, tensor.bytes, i, data_offset_in_piece(pieces[i], j)});
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return tensors;
}

Result<GgufHeader> read_skeleton_header(const std::string& bytes) {
  if (bytes.size() > kSkeletonBytesMax) {
    return fail(ErrorCode::kCorrupt, fmt::format("{} bytes are more than a skeleton may have, {}",
                                                 bytes.size(), kSkeletonBytesMax));
  }
  ASSIGN_OR_RETURN(GgufHeader header, read_gguf_header(HeaderBytes(bytes), TensorData::kElsewhere));
  if (header.header_bytes != bytes.size()) {
    return fail(ErrorCode::kCorrupt, fmt::format("{} bytes follow the skeleton's end",
                                                 bytes.size() - header.header_bytes));
  }
  for (const auto& [key, value] : header.metadata.entries()) {
    if (!belongs_to_skeleton(key)) {
      return fail(ErrorCode::kCorrupt, fmt::format("key \"{}\" has no place in a skeleton", key));
    }
  }
  return header;
}

}  // namespace

Result<std::string> make_skeleton(const Gguf& model) {
  Metadata metadata;
  for (const auto& [key, value] : model.metadata().entries()) {
    if (belongs_to_skeleton(key)) metadata.set(key, value);
  }
  std::vector<OutputTensor> tensors;
  for (const TensorInfo& tensor : model.tensors()) {
    tensors.push_back(copy_of(model, tensor, tensor.name));
  }
  BoundedSink sink;
  RETURN_IF_ERROR(write_gguf_header(metadata, tensors, sink));
  return sink.take();
}

Result<Gguf> open_skeleton(const std::string& bytes, PieceContents contents,
                           const std::string& name) {
  auto header = read_skeleton_header(bytes);
  if (!header) return fail(std::move(header).error().within(name));
  Gguf bare = Gguf::from_header(std::move(*header), nullptr, name);
  // TensorInfo pointers live on when `bare` is moved, so the data can be put behind it afterwards.
  ASSIGN_OR_RETURN(const std::vector<Piece> pieces, list_pieces(bare));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    names.push_back(pieces[i].name());
    if (i >= contents.size() || contents[i] == nullptr) continue;
    if (contents[i]->size() != pieces[i].bytes) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{}: {} has {} bytes, {} are expected", name, names.back(),
                              contents[i]->size(), pieces[i].bytes));
    }
  }
  bare.replace_data(
      std::make_unique<PiecedData>(place_data(pieces), std::move(names), std::move(contents)));
  return bare;
}

}  // namespace salvage::model
