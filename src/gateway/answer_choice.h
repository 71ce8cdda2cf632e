#pragma once

// What becomes of one choice of an answer: what the pipeline reports about it in, the API's events
// out. Text in whole characters and without stop texts, a chat's parts as its parser finds them.
// Not thread safe: used by the thread that reads the answer.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/events.h"
#include "api/generate_request.h"
#include "base/clock.h"
#include "gateway/prompt_tokens.h"
#include "pipeline/request_news.h"
#include "pipeline/text_stream.h"

namespace salvage::gateway {

// --- what the pipeline reports, in the order of a choice's life ---

using pipeline::Ended;
using pipeline::Read;
using pipeline::Waits;
struct PromptRow {  // where a prompt is repeated with logprobs: of the token after a position
  std::uint32_t position;
  engine::Logprobs next;
};
using ChoiceReport = std::variant<Waits, Read, PromptRow, engine::Logprobs, TokenId, Ended>;

// What all choices of an answer have in common. Outlives them.
struct ChoiceContext {
  const api::GenerateRequest& wish;
  const engine::Vocabulary& vocabulary;
  const Clock& clock;
  std::uint32_t context_tokens = 0;  // of a sequence
};

// The end of a choice as the pipeline tells it; `answer_tokens` with the token that ended it.
api::Finished finished_of(pipeline::FinishReason reason, const pipeline::RequestStats& stats,
                          std::uint32_t answer_tokens);

class AnswerChoice {
 public:
  // `prompt` and `context` outlive the object.
  AnswerChoice(std::uint32_t index, const PreparedPrompt& prompt, const ChoiceContext& context);

  // The event that a report makes, if any. An Ended may have to be told twice: first what text and
  // parser held back comes, and only the second time the end (see ended()).
  std::optional<api::AnswerEvent> take(const ChoiceReport& report);
  bool ended() const { return finished_; }
  // The answer is over before the model says so: the pipeline need not go on with it.
  bool wants_no_more() const { return text_.stopped() || out_of_time_; }

 private:
  api::PromptProgress progress(const Read& read);
  std::optional<api::AnswerEvent> repeat(const PromptRow& row);
  std::optional<api::AnswerEvent> delta(TokenId token);
  std::optional<api::AnswerEvent> finish(const Ended& ended);
  api::Finished finished(const Ended& ended);
  void add(std::vector<engine::ChatDelta> parts, api::AnswerDelta& delta) const;
  api::TokenLogprob named(const engine::Logprobs& report) const;
  api::Timings timings_now() const;
  bool is_out_of_time() const;
  bool fills_context() const;
  std::int64_t ms_since(TimePoint begin) const;

  const std::uint32_t index_;
  const PreparedPrompt& prompt_;
  const ChoiceContext& context_;
  pipeline::TextStream text_;
  std::unique_ptr<engine::ChatParser> parser_;  // of a chat
  std::vector<api::TokenLogprob> repeated_;     // of the prompt, as far as known
  std::optional<engine::Logprobs> logprobs_;    // of the token that comes next
  std::uint32_t answer_tokens_ = 0;
  std::uint32_t cached_tokens_ = 0;  // of the prompt
  const TimePoint submitted_;
  TimePoint reading_since_;  // it had its sequence
  TimePoint first_token_;
  bool has_new_line_ = false;
  bool out_of_time_ = false;
  bool flushed_ = false;  // what text and parser held back has been told
  bool finished_ = false;
};

}  // namespace salvage::gateway
