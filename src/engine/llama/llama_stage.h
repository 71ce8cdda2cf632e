#pragma once

// The StageEngine on libllama: one context with one shard, or with a whole model as the only stage.
// engine/stage_engine.h is the contract.

#include <memory>

#include "base/result.h"
#include "engine/stage_engine.h"

namespace salvage::engine {

// A StageEngineFactory. Loads and reserves everything that steps will need; `corrupt` and
// `unsupported` name the file's fault, `resource_exhausted` what did not fit, `cancelled` that
// `progress` said so. Engines in one process are independent of each other.
Result<std::unique_ptr<StageEngine>> make_llama_stage_engine(const StageOptions& options,
                                                             const LoadProgress& progress);

}  // namespace salvage::engine
