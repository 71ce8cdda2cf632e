#pragma once

// Rows that no text gave, for what a stage checks about itself at load: token ids for a first
// stage, hidden states of a normal distribution for the others. The same for the same stage, so
// that two runs see the same rows. Any thread; knows no libllama.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/stage_engine.h"

namespace salvage::engine {

// Row `index` stands at position `index` of `sequence`.
struct CheckRow {
  SequenceId sequence;
  std::uint32_t index = 0;
};

class CheckRows {
 public:
  CheckRows(const StageFacts& facts, std::uint32_t row_count);

  // Runs rows as one micro-batch. Of a last stage the last `logit_rows` of them want logits.
  Result<void> run(StageEngine& engine, std::span<const CheckRow> rows, std::size_t logit_rows,
                   StepOutput& output) const;

 private:
  std::vector<TokenId> tokens_;
  std::vector<float> hidden_;  // row_count x row_width_in
};

}  // namespace salvage::engine
