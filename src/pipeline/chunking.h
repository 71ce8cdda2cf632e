#pragma once

// How many rows a prompt is cut into per micro-batch. Pure arithmetic, any thread.
//
// A prompt of L tokens in m chunks passes S equal stages in (m + S - 1) turns, so small chunks keep
// more stages busy; each turn also costs something that does not depend on its rows (graph build,
// frames, the last layer's tail), so very small ones lose. The best size minimises
//   (ceil(L / rows) + S - 1) * (rows + kTurnCostRows).

#include <cstdint>

namespace salvage::pipeline {

// What a turn costs beside its rows, in rows; measured with `salvage bench --chunk`
// (docs/decisions).
inline constexpr std::uint32_t kTurnCostRows = 2;

// Rows are a multiple of this (but for the last chunk): kernels work on groups of four rows.
inline constexpr std::uint32_t kChunkRowsStep = 8;

// `token_count` > 0 tokens over `stage_count` > 0 stages, at most `rows_max` > 0 rows a chunk.
std::uint32_t choose_chunk_rows(std::uint32_t token_count, std::uint32_t stage_count,
                                std::uint32_t rows_max);

}  // namespace salvage::pipeline
