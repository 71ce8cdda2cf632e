#pragma once

// What a request's handler hears (RequestHandler in pipeline_client.h) as values, for whoever hands
// it from the pipeline's threads to one of its own.

#include <cstdint>

#include "pipeline/pipeline_client.h"

namespace salvage::pipeline {

struct Waits {
  std::uint32_t place;
};
struct Read {  // of the prompt
  std::uint32_t done;
  std::uint32_t total;
  std::uint32_t reused;
};
struct Ended {
  FinishReason reason;
  RequestStats stats;
};

}  // namespace salvage::pipeline
