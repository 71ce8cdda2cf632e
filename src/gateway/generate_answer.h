#pragma once

// One request's answer from a ready pipeline, as the API's events: the prompt from the model's own
// template and tokenizer, one sequence a choice, text in whole characters and without stop texts.
//
// Threads: prepare(), begin() and next() on one, which blocks in next() only; the pipeline reports
// from threads of its own into a queue that holds a whole answer, so a slow reader holds up nobody.
// The destructor cancels what still runs: its sequences are free within one step, and what they
// hold is kept for the next turn of the conversation.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/events.h"
#include "api/generate_request.h"
#include "base/clock.h"
#include "gateway/serving_backend.h"

namespace salvage::gateway {

class GeneratedAnswer {
 public:
  // All that can be refused before anything is computed: template, sampler, length of the prompt.
  static api::Parsed<std::unique_ptr<GeneratedAnswer>> prepare(const api::GenerateRequest& request,
                                                               ReadyModel model,
                                                               const Clock& clock);
  virtual ~GeneratedAnswer() = default;

  // Gives the work to the pipeline. `held` is let go once that is done, however long its reader
  // takes to read the rest; where several choices share a long prompt, all but the first begin when
  // the reader has come to the first one's first token.
  virtual api::Parsed<void> begin(std::shared_ptr<void> held) = 0;
  // The next event; none once `until` has passed. After the last Finished, or Failed, none comes.
  virtual std::optional<api::AnswerEvent> next(TimePoint until) = 0;
  // Nobody wants to know any more: next() returns at once with nothing. From any thread.
  virtual void forsake() = 0;

  virtual std::uint32_t prompt_tokens() const = 0;  // of all prompts together
  virtual std::uint32_t choices() const = 0;        // of all prompts together
  virtual std::vector<std::string> prompt_texts() const = 0;
};

}  // namespace salvage::gateway
