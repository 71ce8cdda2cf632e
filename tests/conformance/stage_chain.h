#pragma once

// A pipeline of stages in one process: the same engines that the stage workers run, one feeding the
// next. Engines belong to whoever made them; a chain borrows them for one run.

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/stage_engine.h"
#include "logits.h"
#include "run_plan.h"

namespace salvage::conformance {

// Called with the hidden states on their way from stage `index` to the next: the mutation check
// changes them here.
using HiddenHook = std::function<void(std::size_t index, std::vector<float>& hidden)>;

// Clears the stages' caches and runs the plan; logits of every position.
Result<Logits> run_stages(std::span<engine::StageEngine* const> stages, const RunPlan& plan,
                          const HiddenHook& on_hidden = {});

}  // namespace salvage::conformance
