#include "pipeline/chunking.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace salvage::pipeline {
namespace {

std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) {
  return (a + b - 1) / b;
}

std::uint64_t prefill_cost(std::uint32_t token_count, std::uint32_t stage_count,
                           std::uint32_t rows) {
  const std::uint64_t turns = divide_up(token_count, rows) + stage_count - 1;
  return turns * (rows + kTurnCostRows);
}

}  // namespace

std::uint32_t choose_chunk_rows(std::uint32_t token_count, std::uint32_t stage_count,
                                std::uint32_t rows_max) {
  CHECK(token_count > 0 && stage_count > 0 && rows_max > 0);
  const std::uint32_t largest = std::min(rows_max, token_count);
  std::uint32_t best = largest;
  std::uint64_t best_cost = prefill_cost(token_count, stage_count, largest);
  for (std::uint32_t rows = kChunkRowsStep; rows < largest; rows += kChunkRowsStep) {
    const std::uint64_t cost = prefill_cost(token_count, stage_count, rows);
    if (cost < best_cost) {
      best = rows;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace salvage::pipeline
