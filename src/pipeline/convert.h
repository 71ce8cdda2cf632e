#pragma once

// Between the three shapes of one micro-batch: planned by the scheduler, on the wire, in the
// engine. Pure; nothing is copied that can be borrowed.

#include <span>
#include <vector>

#include "engine/stage_engine.h"
#include "pipeline/scheduler.h"
#include "wire/micro_batch.h"

namespace salvage::pipeline {

// Replaces `out`.
void to_engine(std::span<const wire::SequenceOp> ops, std::vector<engine::SequenceOp>& out);

// Borrows from both arguments.
engine::MicroBatchView view_of(const wire::MicroBatch& batch, std::span<const float> hidden);

// Fills rows, ops and positions of `batch`; epoch, logits form and timing flag are the caller's.
// Models with four position planes (M-RoPE) get text positions: t = h = w = position, the last 0.
void to_wire(const PlannedStep& step, std::uint32_t position_planes, wire::MicroBatch& batch);

}  // namespace salvage::pipeline
