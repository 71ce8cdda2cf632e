#pragma once

// StepBatch checks one micro-batch against an engine's limits and lays it out for llama_decode.
//
// Rows of several sequences are laid out in ascending order of sequence: libllama cuts a batch into
// ubatches of consecutive sequence ids in the order that it finds them, so only in this order do
// rows come back (in however many ubatches) as they went in. Callers that already send ascending
// sequences pay nothing; consecutive ids (3, 4, 5) run as one ubatch, others as several.
//
// Plain arithmetic over the caller's arrays, no libllama state: tested without weights. Owned by
// one engine; its arrays are kept between steps.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <llama.h>

#include "base/result.h"
#include "engine/stage_engine.h"

namespace salvage::engine {

struct BatchLimits {
  std::uint32_t rows_max = 0;
  std::uint32_t logit_rows_max = 0;  // Last stage only.
  std::uint32_t sequence_count_max = 0;
  std::uint32_t context_per_sequence = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t position_planes = 1;
  std::uint32_t row_width_in = 0;  // 0: the stage takes tokens.
  bool gives_logits = false;
};

// How rows enter libllama.
enum class RowInput {
  kTokens,      // The ids themselves.
  kRows,        // An embedding batch.
  kPlaceholder  // A token batch whose embeddings HiddenTap overwrites; ids don't matter.
};

class StepBatch {
 public:
  explicit StepBatch(const BatchLimits& limits) : limits_(limits) {}

  // Everything that can be checked without the KV cache. `invalid_argument` names the row.
  Result<void> check(const MicroBatchView& view) const;

  // Lays out a checked batch. `rows` are the hidden states that enter, row_count of any width, in
  // the caller's order; empty if ids do. Borrows the caller's arrays until the next call.
  llama_batch lay_out(const MicroBatchView& view, RowInput input, std::span<const float> rows);

  // The rows in the order that libllama sees them, for HiddenTap.
  std::span<const float> rows() const { return rows_; }

  // Nothing if the laid out order is the caller's, else where row i of the caller has gone.
  std::span<const std::uint32_t> places() const { return places_; }

  std::size_t logit_row_count() const { return logit_row_count_; }

 private:
  void order_rows(const MicroBatchView& view);
  void place_rows(std::span<const float> rows, std::size_t row_count);

  BatchLimits limits_;
  std::vector<std::uint32_t> sources_;  // laid out row -> caller's row; empty if the same
  std::vector<std::uint32_t> places_;   // caller's row -> laid out row; empty if the same
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<llama_seq_id> sequences_;
  std::vector<llama_seq_id*> sequence_lists_;
  std::vector<std::int32_t> sequence_counts_;
  std::vector<std::int8_t> outputs_;
  std::vector<float> ordered_rows_;
  std::span<const float> rows_;
  std::size_t logit_row_count_ = 0;
};

}  // namespace salvage::engine
