#include "engine/llama/self_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/llama/check_rows.h"

namespace salvage::engine {
namespace {

constexpr std::uint32_t kRowCount = 16;
constexpr std::array<std::uint32_t, 4> kGroupSizes = {2, 3, 4, 8};
// Sequence s of a group starts at position kGroupStart + s: sizes differ, and after one step for
// each group size all are still within the reference.
constexpr std::uint32_t kGroupStart = 4;

class Checker {
 public:
  Checker(StageEngine& engine, const SelfCheckLimits& limits);
  Result<SelfCheck> run();

 private:
  using Row = CheckRow;

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
  CheckRows rows_;
  std::vector<float> reference_;  // row_count_ x output_width_
  StepOutput output_;
  std::span<const float> output_rows_;  // of the last step
  std::size_t output_skipped_ = 0;      // leading rows of the last step that gave nothing
  SelfCheck result_;
};

Checker::Checker(StageEngine& engine, const SelfCheckLimits& limits)
    : engine_(engine),
      limits_(limits),
      row_count_(std::min(kRowCount, limits.context_per_sequence)),
      output_width_(engine.facts().gives_logits ? engine.facts().vocabulary_size
                                                : engine.facts().row_width_out),
      rows_(engine.facts(), row_count_) {}

std::vector<Checker::Row> Checker::chunk(SequenceId sequence, std::uint32_t begin,
                                         std::uint32_t end) const {
  std::vector<Row> rows;
  for (std::uint32_t index = begin; index < end; ++index) rows.push_back({sequence, index});
  return rows;
}

// Runs the rows as one micro-batch. A last stage is asked for the logits of the last rows that fit.
Result<void> Checker::step(const std::vector<Row>& rows) {
  const StageFacts& facts = engine_.facts();
  const std::size_t logit_rows =
      facts.gives_logits ? std::min<std::size_t>(rows.size(), limits_.logit_rows_max) : rows.size();
  output_skipped_ = rows.size() - logit_rows;
  RETURN_IF_ERROR(rows_.run(engine_, rows, logit_rows, output_));
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
