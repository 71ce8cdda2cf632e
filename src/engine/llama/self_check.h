#pragma once

// The check behind StageEngine::self_check(): a stage's own weights and kernels, made-up but
// realistic rows, every grouping that its limits allow, compared bit by bit.
//
// Method: 16 rows go through one sequence one at a time; what comes out is the reference. Then the
// same rows as one chunk, as two uneven chunks, and as single rows of 2, 3, 4 and 8 sequences that
// stand at different positions. Works on any StageEngine and clears its cache. Whoever keeps
// micro-batches within facts().rows_exact_max says so with `rows_max`.

#include <cstdint>

#include "base/result.h"
#include "engine/stage_engine.h"

namespace salvage::engine {

struct SelfCheckLimits {
  std::uint32_t rows_max = 1;
  std::uint32_t logit_rows_max = 1;
  std::uint32_t sequence_count_max = 1;
  std::uint32_t context_per_sequence = 1;
};

Result<SelfCheck> check_row_independence(StageEngine& engine, const SelfCheckLimits& limits);

}  // namespace salvage::engine
