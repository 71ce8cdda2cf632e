#include "stage_chain.h"

#include <utility>

namespace salvage::conformance {
namespace {

constexpr std::uint32_t kTextPlanes = 3;  // Text: t = h = w = position, a fourth plane stays 0.

std::vector<std::int32_t> position_planes(const Rows& rows, std::uint32_t plane_count) {
  std::vector<std::int32_t> planes;
  for (std::uint32_t plane = 0; plane < plane_count; ++plane) {
    for (const std::int32_t position : rows.positions) {
      planes.push_back(plane < kTextPlanes ? position : 0);
    }
  }
  return planes;
}

Rows chunk_of(const RunPlan& plan, std::size_t begin, std::size_t count) {
  Rows rows;
  for (std::size_t i = begin; i < begin + count; ++i) {
    rows.tokens.push_back(plan.tokens[i]);
    rows.positions.push_back(static_cast<std::int32_t>(i));
  }
  rows.sequences.resize(count);
  return rows;
}

}  // namespace

Result<std::vector<float>> run_rows(std::span<engine::StageEngine* const> stages, const Rows& rows,
                                    const HiddenHook& on_hidden) {
  const std::vector<std::uint8_t> wants_logits(rows.tokens.size(), 1);
  std::vector<float> hidden;
  for (std::size_t index = 0; index < stages.size(); ++index) {
    const auto positions = position_planes(rows, stages[index]->facts().position_planes);
    engine::StepOutput output;
    RETURN_IF_ERROR(
        stages[index]->run({rows.tokens, hidden, positions, rows.sequences, wants_logits}, output));
    if (index + 1 == stages.size()) {
      return std::vector<float>(output.logits.begin(), output.logits.end());
    }
    hidden = std::move(output.hidden);
    if (on_hidden) on_hidden(index, hidden);
  }
  return fail(ErrorCode::kInvalidArgument, "no stages");
}

Result<void> clear_sequence(std::span<engine::StageEngine* const> stages) {
  const engine::SequenceOp forget{};
  for (engine::StageEngine* stage : stages) RETURN_IF_ERROR(stage->apply({&forget, 1}));
  return {};
}

Result<Logits> run_stages(std::span<engine::StageEngine* const> stages, const RunPlan& plan,
                          const HiddenHook& on_hidden) {
  RETURN_IF_ERROR(clear_sequence(stages));
  Logits logits;
  logits.vocabulary_size = stages.back()->facts().vocabulary_size;
  std::size_t begin = 0;
  for (const std::size_t count : plan.groups) {
    ASSIGN_OR_RETURN(const std::vector<float> rows,
                     run_rows(stages, chunk_of(plan, begin, count), on_hidden));
    logits.values.insert(logits.values.end(), rows.begin(), rows.end());
    begin += count;
  }
  return logits;
}

}  // namespace salvage::conformance
