#pragma once

// One answer from a pipeline, as a person or a client wants it: text in whole characters as it
// comes, then what it cost. Blocks the calling thread until the answer ends.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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

// Hears of an answer on its way, on the thread that called generate(). All but `show` may be empty.
struct GenerationListener {
  // Whole characters; false ends the answer: nobody reads it any more.
  std::function<bool(std::string_view)> show;
  // As RequestHandler has them; what is old when this thread comes to it may be left out.
  std::function<void(std::uint32_t place)> queued = {};
  std::function<void(std::uint32_t done, std::uint32_t total, std::uint32_t reused)> progress = {};
  std::function<void(TokenId)> token = {};  // each of the answer; its text may come later
};

struct Generation {
  std::string text;
  std::vector<TokenId> tokens;
  // `cancelled`: `show` said so.
  FinishReason reason = FinishReason::kStop;
  bool by_end_token = false;  // one more than `tokens` was computed
  RequestStats stats;
  std::uint64_t logits_hash = 0;  // XXH3-64 over the rows' own hashes, by rising position

  double prefill_rate() const;  // tokens a second, 0 if unknown
  double decode_rate() const;
};

// `cancelled` once `stop` wants it.
Result<Generation> generate(PipelineClient& client, const engine::TextTools& text,
                            const GenerationOptions& options, const GenerationListener& listener,
                            const StopToken& stop);

}  // namespace salvage::pipeline
