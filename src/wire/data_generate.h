#pragma once

// Micro-batches and step results at random, always valid, for tests and fuzzers.

#include <cstdint>
#include <iterator>

#include "base/random.h"
#include "wire/micro_batch.h"
#include "wire/skip.h"
#include "wire/step_result.h"

namespace salvage::wire {

inline std::vector<StageTiming> generate_timings(Random& random) {
  std::vector<StageTiming> timings(random.below(4));
  for (StageTiming& timing : timings) {
    timing.stage.value = static_cast<std::uint32_t>(random.below(kStagesMax));
    timing.queue_us = static_cast<std::uint32_t>(random());
    timing.compute_us = static_cast<std::uint32_t>(random());
    timing.send_us = static_cast<std::uint32_t>(random());
  }
  return timings;
}

inline MicroBatch generate_micro_batch(std::uint64_t seed) {
  Random random(seed);
  MicroBatch batch;
  batch.epoch.value = random();
  batch.step.value = random();
  batch.ops.resize(random.below(4));
  for (SequenceOp& op : batch.ops) {
    constexpr SequenceOpKind kKinds[] = {SequenceOpKind::kClear, SequenceOpKind::kTrim,
                                         SequenceOpKind::kCopy, SequenceOpKind::kSave,
                                         SequenceOpKind::kRestore};
    op.kind = kKinds[random.below(std::size(kKinds))];
    op.sequence.value = static_cast<std::uint32_t>(random.below(64));
    const auto other = static_cast<std::uint32_t>(random.below(64));
    (names_checkpoint(op.kind) ? op.checkpoint.value : op.source.value) = other;
    op.position = static_cast<std::int32_t>(random.below(100000));
  }
  const std::size_t rows = random.below(33);
  batch.position_planes = random.below(2) == 0 ? 1 : 4;
  for (std::size_t i = 0; i < rows; ++i) {
    batch.tokens.push_back(static_cast<TokenId>(random()));
    batch.sequences.push_back({static_cast<std::uint32_t>(random.below(64))});
    batch.wants_logits.push_back(static_cast<std::uint8_t>(random.below(2)));
  }
  batch.positions.resize(rows * batch.position_planes);
  for (auto& position : batch.positions) position = static_cast<std::int32_t>(random());
  batch.causal = random.below(2) == 0;
  batch.wants_timing = random.below(2) == 0;
  batch.logits.form = static_cast<LogitsForm>(random.below(3));
  if (batch.logits.form == LogitsForm::kTopK) {
    batch.logits.top_k = 1 + static_cast<std::uint32_t>(random.below(kTopKMax));
  }
  batch.hidden.type = static_cast<HiddenType>(random.below(3));
  batch.skipped = random.below(4) == 0;
  if (!batch.skipped && rows > 0 && random.below(2) == 0) {
    batch.hidden.row_count = static_cast<std::uint32_t>(rows);
    batch.hidden.row_width = 1 + static_cast<std::uint32_t>(random.below(kRowWidthMax));
  }
  batch.timings = generate_timings(random);
  return batch;
}

inline Skip generate_skip(std::uint64_t seed) {
  Random random(seed);
  Skip skip;
  std::uint64_t step = 0;
  for (std::uint64_t left = random.below(20); left > 0; --left) {
    skip.steps.push_back({step += 1 + random.below(100)});
  }
  return skip;
}

inline StepResult generate_step_result(std::uint64_t seed) {
  Random random(seed);
  StepResult result;
  result.epoch.value = random();
  result.step.value = random();
  result.form = static_cast<LogitsForm>(random.below(3));
  result.skipped = random.below(4) == 0;
  result.row_count = result.skipped ? 0 : static_cast<std::uint32_t>(random.below(5));
  result.vocabulary_size = 1 + static_cast<std::uint32_t>(random.below(1000));
  if (result.form == LogitsForm::kTopK) {
    result.top_k = 1 + static_cast<std::uint32_t>(random.below(result.vocabulary_size));
    for (std::uint32_t i = 0; i < result.row_count * result.top_k; ++i) {
      result.ids.push_back(static_cast<TokenId>(random.below(result.vocabulary_size)));
      result.logits.push_back(static_cast<float>(random.unit() * 40 - 20));
    }
    for (std::uint32_t i = 0; i < result.row_count; ++i) {
      result.log_sum_exp.push_back(static_cast<float>(random.unit() * 40));
    }
  }
  if (result.form == LogitsForm::kHash) {
    for (std::uint32_t i = 0; i < result.row_count; ++i) result.hashes.push_back(random());
  }
  result.timings = generate_timings(random);
  return result;
}

}  // namespace salvage::wire
