#pragma once

// The first stage's embedding table, kept on disk: a row is read and dequantised when its token
// turns up, so a table of a gigabyte costs no memory but the page cache's. Reading (rather than
// mapping) makes a table that shrinks or rots an Error instead of a signal.
//
// Thread rule: one thread at a time; not shared between engines.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/gguf.h"

namespace salvage::engine {

class EmbeddingTable {
 public:
  // Opens a GGUF with the one tensor `token_embd.weight` and checks its shape and length.
  static Result<EmbeddingTable> open(const std::filesystem::path& path);

  std::uint32_t row_width() const { return row_width_; }
  std::uint32_t row_count() const { return row_count_; }

  // Of the model that the table was cut from; empty if the file doesn't say.
  std::string model_digest() const;

  // Fills the first row_width floats of each of tokens.size() rows and zeroes the rest: rows may be
  // wider than the table (Qwen3-VL's carry image features behind). Ids must be below row_count.
  Result<void> read(std::span<const TokenId> tokens, std::span<float> rows);

 private:
  explicit EmbeddingTable(model::Gguf file) : file_(std::move(file)) {}
  Result<void> read_row(TokenId token, std::span<float> row);

  model::Gguf file_;
  const model::TensorInfo* tensor_ = nullptr;  // in file_
  std::uint32_t row_width_ = 0;
  std::uint32_t row_count_ = 0;
  std::vector<std::byte> packed_row_;
};

}  // namespace salvage::engine
