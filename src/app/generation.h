#pragma once

// One answer from a session, as the commands want it: text in whole characters as it comes, then
// what it cost. Blocks the calling thread until the answer ends.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/session.h"
#include "pipeline/pipeline_client.h"

namespace salvage::app {

struct GenerationOptions {
  std::vector<TokenId> prompt;
  std::uint32_t tokens_max = 256;
  engine::SamplingOptions sampling;
  std::vector<std::string> stop;
  bool ignore_end = false;  // go on behind the model's end token: for measuring
};

struct Generation {
  std::string text;
  std::vector<TokenId> tokens;
  pipeline::FinishReason reason = pipeline::FinishReason::kStop;
  pipeline::RequestStats stats;

  double prefill_rate() const;  // tokens a second, 0 if unknown
  double decode_rate() const;
};

// `show` gets whole characters; false ends the answer (nobody reads it any more).
Result<Generation> generate(Session& session, const GenerationOptions& options,
                            const std::function<bool(std::string_view)>& show,
                            const StopToken& stop);

}  // namespace salvage::app
