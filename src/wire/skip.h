#pragma once

// Steps that nobody waits for any more. It goes down the pipeline past the micro-batches that wait
// for credits, and each stage hands it on at once, so that all of them leave out what they have not
// begun. A step that was left out still travels: its micro-batch is marked, its sequence operations
// apply, and its result says so (docs/wire.md, "skip").

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "wire/frame.h"

namespace salvage::wire {

struct Skip {
  std::vector<StepId> steps;  // rising; at most kSkipStepsMax
  friend bool operator==(const Skip&, const Skip&) = default;
};

// Same rules as for MicroBatch (wire/micro_batch.h).
Result<void> encode(const Skip& skip, std::vector<std::byte>& body);
Result<void> decode(const FrameHeader& header, std::span<const std::byte> body, Skip& skip);

}  // namespace salvage::wire
