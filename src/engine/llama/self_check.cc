#include "engine/llama/self_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace salvage::engine {
namespace {

constexpr std::uint32_t kRowCount = 16;
constexpr std::array<std::uint32_t, 4> kGroupSizes = {2, 3, 4, 8};
// Sequence s of a group starts at position kGroupStart + s: sizes differ, and after one step for
// each group size all are still within the reference.
constexpr std::uint32_t kGroupStart = 4;
constexpr std::uint64_t kSeed = 20240229;  // any; fixed so that two runs see the same rows

class Checker {
 public:
  Checker(StageEngine& engine, const SelfCheckLimits& limits);
  Result<SelfCheck> run();

 private:
  struct Row {
    SequenceId sequence;
    std::uint32_t index = 0;  // of the rows, and its position
  };

  Result<void> step(const std::vector<Row>& rows);
  Result<void> step_and_compare(const std::vector<Row>& rows, const std::string& grouping);
  Result<void> make_reference();
  Result<void> check_chunks();
  Result<void> check_groups();
  Result<void> clear();
  void compare(std::size_t output_row, std::uint32_t reference_row, const std::string& grouping);
  std::vector<Row> chunk(SequenceId sequence, std::uint32_t begin, std::uint32_t end) const;

  StageEngine& engine_;
  SelfCheckLimits limits_;
  std::uint32_t row_count_;
  std::size_t output_width_;
  std::vector<TokenId> tokens_;
  std::vector<float> hidden_;     // row_count_ x row_width_in
  std::vector<float> reference_;  // row_count_ x output_width_
  StepOutput output_;
  std::span<const float> output_rows_;  // of the last step
  std::size_t output_skipped_ = 0;      // leading rows of the last step that gave nothing
  SelfCheck result_;
};

Checker::Checker(StageEngine& engine, const SelfCheckLimits& limits)
    : engine_(engine),
      limits_(limits),
      row_count_(std::min(kRowCount, limits.context_per_sequence)) {
  const StageFacts& facts = engine.facts();
  output_width_ = facts.gives_logits ? facts.vocabulary_size : facts.row_width_out;
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal;
  tokens_.resize(row_count_);
  for (TokenId& token : tokens_) {
    token = static_cast<TokenId>(random() % std::max(1U, facts.vocabulary_size));
  }
  if (facts.takes_tokens) return;
  hidden_.resize(std::size_t{row_count_} * facts.row_width_in);
  for (float& value : hidden_) value = normal(random);
}

std::vector<Checker::Row> Checker::chunk(SequenceId sequence, std::uint32_t begin,
                                         std::uint32_t end) const {
  std::vector<Row> rows;
  for (std::uint32_t index = begin; index < end; ++index) rows.push_back({sequence, index});
  return rows;
}

// Runs the rows as one micro-batch. A last stage is asked for the logits of the last rows that fit.
Result<void> Checker::step(const std::vector<Row>& rows) {
  const StageFacts& facts = engine_.facts();
  std::vector<TokenId> tokens;
  std::vector<float> hidden;
  std::vector<SequenceId> sequences;
  std::vector<std::int32_t> positions(rows.size() * facts.position_planes, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t index = rows[i].index;
    tokens.push_back(tokens_[index]);
    sequences.push_back(rows[i].sequence);
    if (!hidden_.empty()) {
      const auto row = hidden_.begin() + std::ptrdiff_t{index} * facts.row_width_in;
      hidden.insert(hidden.end(), row, row + facts.row_width_in);
    }
    // Text repeats its position in the first three of four planes; the fourth stays 0.
    const std::uint32_t planes = facts.position_planes == 4 ? 3 : facts.position_planes;
    for (std::uint32_t plane = 0; plane < planes; ++plane) {
      positions[plane * rows.size() + i] = static_cast<std::int32_t>(index);
    }
  }
  std::vector<std::uint8_t> wants_logits(rows.size(), 1);
  output_skipped_ = 0;
  if (facts.gives_logits && rows.size() > limits_.logit_rows_max) {
    output_skipped_ = rows.size() - limits_.logit_rows_max;
    std::fill_n(wants_logits.begin(), output_skipped_, std::uint8_t{0});
  }
  RETURN_IF_ERROR(engine_.run({.tokens = tokens,
                               .hidden = hidden,
                               .positions = positions,
                               .sequences = sequences,
                               .wants_logits = wants_logits},
                              output_));
  output_rows_ = facts.gives_logits ? output_.logits : std::span<const float>(output_.hidden);
  if (output_rows_.size() != (rows.size() - output_skipped_) * output_width_) {
    return fail(ErrorCode::kInternal, "a step gave another number of rows than it was asked for");
  }
  return {};
}

void Checker::compare(std::size_t output_row, std::uint32_t reference_row,
                      const std::string& grouping) {
  const float* got = output_rows_.data() + output_row * output_width_;
  const float* wanted = reference_.data() + reference_row * output_width_;
  ++result_.rows_compared;
  if (std::memcmp(got, wanted, output_width_ * sizeof(float)) == 0) return;
  double error = 0;
  double power = 0;
  for (std::size_t i = 0; i < output_width_; ++i) {
    error += (got[i] - wanted[i]) * static_cast<double>(got[i] - wanted[i]);
    power += wanted[i] * static_cast<double>(wanted[i]);
  }
  if (result_.exact) {
    result_.exact = false;
    result_.condition = grouping;
  }
  result_.nmse = std::max(result_.nmse, power > 0 ? error / power : error);
}

Result<void> Checker::step_and_compare(const std::vector<Row>& rows, const std::string& grouping) {
  RETURN_IF_ERROR(step(rows));
  for (std::size_t i = output_skipped_; i < rows.size(); ++i) {
    compare(i - output_skipped_, rows[i].index, grouping);
  }
  return {};
}

Result<void> Checker::clear() {
  std::vector<SequenceOp> ops;
  for (std::uint32_t id = 0; id < limits_.sequence_count_max; ++id) {
    ops.push_back({.kind = SequenceOpKind::kClear, .sequence = {id}, .source = {}});
  }
  return engine_.apply(ops);
}

Result<void> Checker::make_reference() {
  reference_.clear();
  for (std::uint32_t index = 0; index < row_count_; ++index) {
    RETURN_IF_ERROR(step({{SequenceId{0}, index}}));
    reference_.insert(reference_.end(), output_rows_.begin(), output_rows_.end());
  }
  return clear();
}

Result<void> Checker::check_chunks() {
  const std::uint32_t whole = std::min(row_count_, limits_.rows_max);
  if (whole < 2) return {};
  const std::string grouping = fmt::format("rows alone and in a chunk of {} differ", whole);
  RETURN_IF_ERROR(step_and_compare(chunk(SequenceId{0}, 0, whole), grouping));
  RETURN_IF_ERROR(clear());
  if (whole < 4) return {};
  const std::uint32_t cut = whole / 2 - 1;  // uneven, and no multiple of four for 16 rows
  for (const auto& [begin, end] : {std::pair{0U, cut}, std::pair{cut, whole}}) {
    RETURN_IF_ERROR(
        step_and_compare(chunk(SequenceId{0}, begin, end),
                         fmt::format("rows alone and in a chunk of {} differ", end - begin)));
  }
  return clear();
}

Result<void> Checker::check_groups() {
  const std::uint32_t members =
      std::min({limits_.sequence_count_max, limits_.rows_max, kGroupSizes.back()});
  const auto steps = static_cast<std::uint32_t>(kGroupSizes.size());
  if (members < 2 || kGroupStart + members - 1 + steps > row_count_) return {};
  for (std::uint32_t member = 0; member < members; ++member) {
    for (std::uint32_t index = 0; index < kGroupStart + member;) {
      const std::uint32_t end = std::min(kGroupStart + member, index + limits_.rows_max);
      RETURN_IF_ERROR(step(chunk(SequenceId{member}, index, end)));
      index = end;
    }
  }
  std::vector<std::uint32_t> done(members, 0);
  for (const std::uint32_t size : kGroupSizes) {
    if (size > members) break;
    std::vector<Row> rows;
    for (std::uint32_t member = 0; member < size; ++member) {
      rows.push_back({SequenceId{member}, kGroupStart + member + done[member]++});
    }
    RETURN_IF_ERROR(step_and_compare(
        rows, fmt::format("rows alone and in a group of {} sequences differ", size)));
  }
  return clear();
}

Result<SelfCheck> Checker::run() {
  result_.exact = true;
  RETURN_IF_ERROR(clear());
  RETURN_IF_ERROR(make_reference());
  RETURN_IF_ERROR(check_chunks());
  RETURN_IF_ERROR(check_groups());
  return result_;
}

}  // namespace

Result<SelfCheck> check_row_independence(StageEngine& engine, const SelfCheckLimits& limits) {
  return Checker(engine, limits).run();
}

}  // namespace salvage::engine
