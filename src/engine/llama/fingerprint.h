#pragma once

// The kernel fingerprint: everything that decides a stage's last bits besides its weights. Two
// stages with equal fingerprints give equal bits for equal input; nothing is promised otherwise.

#include <string>

#include "engine/llama/weight_placement.h"
#include "engine/stage_engine.h"

namespace salvage::engine {

// Starts the backend if that hasn't been done.
std::string kernel_fingerprint(const WeightPlacement& placement, const StageOptions& options);

}  // namespace salvage::engine
