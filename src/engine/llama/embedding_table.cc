#include "engine/llama/embedding_table.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <ggml.h>

#include "model/shard_keys.h"

namespace salvage::engine {
namespace {

constexpr const char* kTensorName = "token_embd.weight";

const ggml_type_traits* traits_of(const model::TensorInfo& tensor) {
  return ggml_get_type_traits(static_cast<ggml_type>(tensor.type));
}

}  // namespace

Result<EmbeddingTable> EmbeddingTable::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(model::Gguf file, model::Gguf::open(path));
  EmbeddingTable table(std::move(file));
  table.tensor_ = table.file_.find_tensor(kTensorName);
  if (table.tensor_ == nullptr) {
    return fail(ErrorCode::kCorrupt, fmt::format("{} holds no '{}'; is it an embedding table?",
                                                 path.string(), kTensorName));
  }
  const model::TensorInfo& tensor = *table.tensor_;
  constexpr std::uint64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (tensor.shape[0] == 0 || tensor.shape[0] > kMax || tensor.shape[1] == 0 ||
      tensor.shape[1] > kMax || tensor.shape[2] != 1 || tensor.shape[3] != 1) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: '{}' is not a table of rows", path.string(), kTensorName));
  }
  if (tensor.type != model::TensorType::kF32 && traits_of(tensor)->to_float == nullptr) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: embeddings of type {} can't be read", path.string(),
                            model::tensor_type_name(tensor.type)));
  }
  table.row_width_ = static_cast<std::uint32_t>(tensor.shape[0]);
  table.row_count_ = static_cast<std::uint32_t>(tensor.shape[1]);
  table.packed_row_.resize(tensor.row_bytes());
  return table;
}

std::string EmbeddingTable::model_digest() const {
  return std::string(file_.metadata().text_value(model::kTableDigestKey).value_or(""));
}

Result<void> EmbeddingTable::read(std::span<const TokenId> tokens, std::span<float> rows) {
  const std::size_t width = tokens.empty() ? 0 : rows.size() / tokens.size();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::span<float> row = rows.subspan(i * width, width);
    RETURN_IF_ERROR(read_row(tokens[i], row.first(row_width_)));
    std::fill(row.begin() + row_width_, row.end(), 0.0F);
  }
  return {};
}

Result<void> EmbeddingTable::read_row(TokenId token, std::span<float> row) {
  const std::uint64_t offset = static_cast<std::uint64_t>(token) * packed_row_.size();
  if (tensor_->type == model::TensorType::kF32) {
    return file_.read(*tensor_, offset, std::as_writable_bytes(row));
  }
  RETURN_IF_ERROR(file_.read(*tensor_, offset, packed_row_));
  traits_of(*tensor_)->to_float(packed_row_.data(), row.data(),
                                static_cast<std::int64_t>(row_width_));
  return {};
}

}  // namespace salvage::engine
