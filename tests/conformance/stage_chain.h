#pragma once

// A pipeline of stages in one process: the same engines that the stage workers run, one feeding the
// next. Engines belong to whoever made them; a chain borrows them for one run.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/stage_engine.h"
#include "logits.h"
#include "run_plan.h"

namespace salvage::conformance {

// Rows of one micro-batch: a chunk of one sequence, or a row each of several. All want logits.
struct Rows {
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> positions;
  std::vector<SequenceId> sequences;
};

// Called with the hidden states on their way from stage `index` to the next: the mutation check
// changes them here.
using HiddenHook = std::function<void(std::size_t index, std::vector<float>& hidden)>;

// Sends one micro-batch through all stages; its logits, row by row.
Result<std::vector<float>> run_rows(std::span<engine::StageEngine* const> stages, const Rows& rows,
                                    const HiddenHook& on_hidden = {});

// Forgets all of sequence 0.
Result<void> clear_sequence(std::span<engine::StageEngine* const> stages);

// Clears sequence 0 and runs the plan; logits of every position.
Result<Logits> run_stages(std::span<engine::StageEngine* const> stages, const RunPlan& plan,
                          const HiddenHook& on_hidden = {});

}  // namespace salvage::conformance
