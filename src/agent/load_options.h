#pragma once

// Between the wire's words and the engine's: what a stage is told to load, what it found. Pure.
// A peer's words are checked here, before the engine sees them.

#include "base/result.h"
#include "engine/stage_engine.h"
#include "wire/control.h"

namespace salvage::agent {

Result<engine::StageOptions> to_stage_options(const wire::LoadStage& load);
void from_stage_options(const engine::StageOptions& options, wire::LoadStage& load);

wire::StageLoaded to_stage_loaded(const engine::StageFacts& facts);
engine::StageFacts to_stage_facts(const wire::StageLoaded& loaded);

}  // namespace salvage::agent
