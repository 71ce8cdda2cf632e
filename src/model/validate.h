#pragma once

// libllama asserts on some values that a file may hold, and an assert ends the stage's process.
// validate_for_engine() finds those values first and says which and why. It isn't a full check:
// what libllama reports as an error by itself is left to it.

#include "base/result.h"
#include "model/gguf.h"

namespace salvage::model {

// For whole models and for shards alike.
Result<void> validate_for_engine(const Gguf& model);

// attention.head_count, of an array the largest.
std::uint64_t most_heads(const Gguf& model);

}  // namespace salvage::model
