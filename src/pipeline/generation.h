#pragma once

// One answer from a pipeline, as a person or a client wants it: text in whole characters as it
// comes, then what it cost. Blocks the calling thread until the answer ends.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "engine/text.h"
#include "pipeline/pipeline_client.h"

namespace salvage::pipeline {

struct GenerationOptions {
  std::vector<TokenId> prompt;
  std::uint32_t turn = 0;  // tokens before the answer's turn; 0: not known
  std::uint32_t tokens_max = 256;
  engine::SamplingOptions sampling;
  std::vector<std::string> stop;
  bool ignore_end = false;   // go on behind the model's end token: for measuring
  bool hash_logits = false;  // of every row, prompt included; all of them travel then
};

// Turns what somebody typed into `options.prompt`, as one user's message of the model's own
// template if `chat` (with the template's stop strings), else as it is.
Result<void> set_prompt(const engine::TextTools& text, const std::string& typed, bool chat,
                        GenerationOptions& options);

struct Generation {
  std::string text;
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kStop;
  RequestStats stats;
  std::uint64_t logits_hash = 0;  // XXH3-64 over the rows' own hashes, by rising position

  double prefill_rate() const;  // tokens a second, 0 if unknown
  double decode_rate() const;
};

// `show` gets whole characters; false ends the answer (nobody reads it any more).
Result<Generation> generate(PipelineClient& client, const engine::TextTools& text,
                            const GenerationOptions& options,
                            const std::function<bool(std::string_view)>& show,
                            const StopToken& stop);

}  // namespace salvage::pipeline
