#include "pipeline/scheduler_limits.h"

#include <algorithm>

namespace salvage::pipeline {

SchedulerLimits scheduler_limits(const PipelineShape& shape, std::span<const StageAbility> stages) {
  SchedulerLimits limits;
  limits.stage_count = shape.stage_count;
  limits.sequence_count = shape.sequence_count;
  limits.context_per_sequence = shape.context_per_sequence;
  limits.rows_max = shape.rows_max;
  limits.logit_rows_max = shape.logit_rows_max;
  limits.in_flight_max = in_flight_max(shape.stage_count);
  // A checkpoint is one on every stage.
  const auto fewest = std::min_element(
      stages.begin(), stages.end(),
      [](const auto& a, const auto& b) { return a.checkpoint_count < b.checkpoint_count; });
  if (fewest != stages.end()) limits.checkpoint_count = fewest->checkpoint_count;
  limits.can_skip = !stages.empty();
  for (const StageAbility& stage : stages) {
    limits.can_skip = limits.can_skip && stage.can_skip;
    limits.can_trim = limits.can_trim && stage.can_trim;
    if (shape.exact && stage.rows_exact_max != 0) {
      limits.rows_max = std::min(limits.rows_max, stage.rows_exact_max);
    }
  }
  return limits;
}

}  // namespace salvage::pipeline
