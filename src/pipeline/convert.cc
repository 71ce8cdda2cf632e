#include "pipeline/convert.h"

namespace salvage::pipeline {

static_assert(static_cast<int>(engine::SequenceOpKind::kClear) ==
              static_cast<int>(wire::SequenceOpKind::kClear));
static_assert(static_cast<int>(engine::SequenceOpKind::kTrim) ==
              static_cast<int>(wire::SequenceOpKind::kTrim));
static_assert(static_cast<int>(engine::SequenceOpKind::kCopy) ==
              static_cast<int>(wire::SequenceOpKind::kCopy));
static_assert(static_cast<int>(engine::SequenceOpKind::kSave) ==
              static_cast<int>(wire::SequenceOpKind::kSave));
static_assert(static_cast<int>(engine::SequenceOpKind::kRestore) ==
              static_cast<int>(wire::SequenceOpKind::kRestore));

void to_engine(std::span<const wire::SequenceOp> ops, std::vector<engine::SequenceOp>& out) {
  out.clear();
  for (const wire::SequenceOp& op : ops) {
    out.push_back({.kind = static_cast<engine::SequenceOpKind>(op.kind),
                   .sequence = op.sequence,
                   .source = op.source,
                   .position = op.position,
                   .checkpoint = op.checkpoint});
  }
}

engine::MicroBatchView view_of(const wire::MicroBatch& batch, std::span<const float> hidden) {
  return {.tokens = batch.tokens,
          .hidden = hidden,
          .positions = batch.positions,
          .sequences = batch.sequences,
          .wants_logits = batch.wants_logits,
          .causal = batch.causal};
}

void to_wire(const PlannedStep& step, std::uint32_t position_planes, wire::MicroBatch& batch) {
  batch.step = step.step;
  batch.ops.clear();
  for (const engine::SequenceOp& op : step.ops) {
    batch.ops.push_back({.kind = static_cast<wire::SequenceOpKind>(op.kind),
                         .sequence = op.sequence,
                         .source = op.source,
                         .position = op.position,
                         .checkpoint = op.checkpoint});
  }
  batch.tokens = step.tokens;
  batch.sequences = step.sequences;
  batch.wants_logits = step.wants_logits;
  batch.position_planes = static_cast<std::uint8_t>(position_planes);
  batch.positions = step.positions;
  for (std::uint32_t plane = 1; plane < position_planes; ++plane) {
    const bool text = plane < 3;
    for (const std::int32_t position : step.positions)
      batch.positions.push_back(text ? position : 0);
  }
  batch.causal = true;
  batch.hidden = {};
  batch.timings.clear();
}

}  // namespace salvage::pipeline
