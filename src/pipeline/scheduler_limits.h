#pragma once

// What the scheduler may do with a pipeline, from what was asked and what its stages can. Pure.

#include <cstdint>
#include <span>

#include "pipeline/scheduler.h"

namespace salvage::pipeline {

struct StageAbility {
  bool can_trim = true;              // its cache can be cut back
  std::uint32_t rows_exact_max = 0;  // with exact kernels; 0: any number
  std::uint32_t checkpoint_count = 0;
  bool can_skip = false;  // leaves out steps that nobody waits for (wire/skip.h)
};

struct PipelineShape {
  std::uint32_t stage_count = 1;
  std::uint32_t sequence_count = 1;
  std::uint32_t context_per_sequence = 0;
  std::uint32_t rows_max = 1;
  std::uint32_t logit_rows_max = 1;
  bool exact = false;
};

// Micro-batches under way at once: one in work and one waiting at every stage, one on its way.
constexpr std::uint32_t in_flight_max(std::uint32_t stage_count) {
  return 2 * stage_count + 1;
}

SchedulerLimits scheduler_limits(const PipelineShape& shape, std::span<const StageAbility> stages);

}  // namespace salvage::pipeline
