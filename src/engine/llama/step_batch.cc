#include "engine/llama/step_batch.h"

#include <algorithm>
#include <bitset>
#include <numeric>

#include <fmt/format.h>

namespace salvage::engine {
namespace {

constexpr std::size_t kSequencesMax = 64;  // StageOptions allows no more; checked when loading.

tl::unexpected<Error> refuse_batch(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

bool is_chunk(const MicroBatchView& view) {
  return std::all_of(view.sequences.begin(), view.sequences.end(),
                     [&](SequenceId id) { return id == view.sequences.front(); });
}

Result<void> check_sizes(const MicroBatchView& view, const BatchLimits& limits) {
  const std::size_t rows = view.tokens.size();
  if (rows == 0) return refuse_batch("a micro-batch without rows");
  if (rows > limits.rows_max) {
    return refuse_batch(
        fmt::format("micro-batch of {} rows, at most {} fit", rows, limits.rows_max));
  }
  if (view.sequences.size() != rows || view.wants_logits.size() != rows ||
      view.positions.size() != rows * limits.position_planes) {
    return refuse_batch(
        fmt::format("micro-batch of {} ids with {} positions in {} planes, {} sequences, "
                    "{} logit marks",
                    rows, view.positions.size(), limits.position_planes, view.sequences.size(),
                    view.wants_logits.size()));
  }
  if (view.hidden.size() != rows * limits.row_width_in) {
    return refuse_batch(fmt::format("{} floats of hidden state for {} rows of {}",
                                    view.hidden.size(), rows, limits.row_width_in));
  }
  return {};
}

Result<void> check_rows(const MicroBatchView& view, const BatchLimits& limits) {
  for (std::size_t row = 0; row < view.tokens.size(); ++row) {
    const TokenId token = view.tokens[row];
    if (token < 0 || static_cast<std::uint32_t>(token) >= limits.vocabulary_size) {
      return refuse_batch(fmt::format("row {}: token id {} outside of the vocabulary of {}", row,
                                      token, limits.vocabulary_size));
    }
    if (view.sequences[row].value >= limits.sequence_count_max) {
      return refuse_batch(fmt::format("row {}: sequence {} of at most {}", row,
                                      view.sequences[row].value, limits.sequence_count_max));
    }
  }
  for (std::size_t i = 0; i < view.positions.size(); ++i) {
    const std::int32_t position = view.positions[i];
    if (position < 0 || static_cast<std::uint32_t>(position) >= limits.context_per_sequence) {
      return refuse_batch(fmt::format("row {}: position {} outside of the context of {} tokens",
                                      i % view.tokens.size(), position,
                                      limits.context_per_sequence));
    }
  }
  return {};
}

// One chunk counts its positions up by one. With M-RoPE (four planes) an image's rows share
// positions, so there only going back is wrong.
Result<void> check_chunk_order(const MicroBatchView& view, const BatchLimits& limits) {
  for (std::size_t row = 1; row < view.tokens.size(); ++row) {
    const std::int32_t step = view.positions[row] - view.positions[row - 1];
    if (limits.position_planes == 1 ? step != 1 : step < 0) {
      return refuse_batch(fmt::format("row {}: position {} follows {} in one chunk", row,
                                      view.positions[row], view.positions[row - 1]));
    }
  }
  return {};
}

Result<void> check_one_row_each(const MicroBatchView& view) {
  std::bitset<kSequencesMax> seen;
  for (const SequenceId id : view.sequences) {
    if (seen.test(id.value)) {
      return refuse_batch(
          fmt::format("sequence {} has several rows in a batch of several sequences", id.value));
    }
    seen.set(id.value);
  }
  return {};
}

}  // namespace

Result<void> StepBatch::check(const MicroBatchView& view) const {
  RETURN_IF_ERROR(check_sizes(view, limits_));
  RETURN_IF_ERROR(check_rows(view, limits_));
  if (is_chunk(view)) {
    RETURN_IF_ERROR(check_chunk_order(view, limits_));
  } else {
    RETURN_IF_ERROR(check_one_row_each(view));
  }
  const auto logit_rows =
      static_cast<std::size_t>(std::count_if(view.wants_logits.begin(), view.wants_logits.end(),
                                             [](std::uint8_t wants) { return wants != 0; }));
  if (limits_.gives_logits && logit_rows > limits_.logit_rows_max) {
    return refuse_batch(
        fmt::format("{} rows want logits, at most {} can", logit_rows, limits_.logit_rows_max));
  }
  return {};
}

void StepBatch::order_rows(const MicroBatchView& view) {
  sources_.clear();
  places_.clear();
  if (std::is_sorted(view.sequences.begin(), view.sequences.end())) return;
  sources_.resize(view.sequences.size());
  std::iota(sources_.begin(), sources_.end(), 0U);
  std::sort(sources_.begin(), sources_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return view.sequences[a] < view.sequences[b];
  });
  places_.resize(sources_.size());
  for (std::uint32_t place = 0; place < sources_.size(); ++place) places_[sources_[place]] = place;
}

void StepBatch::place_rows(std::span<const float> rows, std::size_t row_count) {
  rows_ = rows;
  if (sources_.empty() || rows.empty()) return;
  const std::size_t width = rows.size() / row_count;
  ordered_rows_.resize(rows.size());
  for (std::size_t place = 0; place < row_count; ++place) {
    const auto row = rows.subspan(sources_[place] * width, width);
    std::copy(row.begin(), row.end(),
              ordered_rows_.begin() + static_cast<std::ptrdiff_t>(place * width));
  }
  rows_ = ordered_rows_;
}

llama_batch StepBatch::lay_out(const MicroBatchView& view, RowInput input,
                               std::span<const float> rows) {
  const std::size_t row_count = view.tokens.size();
  order_rows(view);
  place_rows(rows, row_count);
  tokens_.assign(row_count, 0);
  positions_.resize(row_count * limits_.position_planes);
  sequences_.resize(row_count);
  sequence_lists_.resize(row_count);
  sequence_counts_.assign(row_count, 1);
  outputs_.resize(row_count);
  logit_row_count_ = 0;
  for (std::size_t place = 0; place < row_count; ++place) {
    const std::size_t row = sources_.empty() ? place : sources_[place];
    if (input == RowInput::kTokens) tokens_[place] = view.tokens[row];
    for (std::size_t plane = 0; plane < limits_.position_planes; ++plane) {
      positions_[plane * row_count + place] = view.positions[plane * row_count + row];
    }
    sequences_[place] = static_cast<llama_seq_id>(view.sequences[row].value);
    sequence_lists_[place] = &sequences_[place];
    // A stage that isn't last must mark every row, else libllama drops rows in the last layer.
    const bool output = !limits_.gives_logits || view.wants_logits[row] != 0;
    outputs_[place] = output ? 1 : 0;
    if (limits_.gives_logits && output) ++logit_row_count_;
  }
  llama_batch batch{};
  batch.n_tokens = static_cast<std::int32_t>(row_count);
  // libllama's batch holds plain pointers for both directions; it copies the rows and writes none.
  if (input == RowInput::kRows) {
    batch.embd = const_cast<float*>(rows_.data());
  } else {
    batch.token = tokens_.data();
  }
  batch.pos = positions_.data();
  batch.n_seq_id = sequence_counts_.data();
  batch.seq_id = sequence_lists_.data();
  batch.logits = outputs_.data();
  return batch;
}

}  // namespace salvage::engine
