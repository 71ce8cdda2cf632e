#pragma once

// Answers as bytes: events in, a dialect's stream or one JSON out. All is in these two classes; the
// dialects' own files are behind them. No clock, no socket: who pings decides when. Not thread
// safe.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/answer_info.h"
#include "api/events.h"
#include "api/segments.h"

namespace salvage::api {

struct ChoiceSoFar {
  explicit ChoiceSoFar(std::string unique) : segments(std::move(unique)) {}
  Segments segments;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;  // of a whole answer, and of the prompt that it repeats
  std::optional<Finished> finished;
};

struct AnswerSoFar {
  explicit AnswerSoFar(const AnswerInfo& info);
  ChoiceSoFar* live(std::uint32_t choice);  // none once it finished, or if there is no such
  bool is_whole() const;
  // Of all choices; a prompt counts once.
  Usage usage() const;

  std::uint32_t prompt_tokens = 0;
  std::uint32_t choices_per_prompt = 1;
  std::vector<ChoiceSoFar> choices;
};

// Server-sent events, from headers to end.
class AnswerStream {
 public:
  static std::unique_ptr<AnswerStream> make(AnswerInfo info);
  virtual ~AnswerStream() = default;

  // What to send now, perhaps nothing. Ends by itself with the last Finished, or with Failed; later
  // events are passed over.
  std::string take(const AnswerEvent& event);
  bool ended() const { return ended_; }
  // What to send when nothing was for a while.
  virtual std::string ping() const;

 protected:
  explicit AnswerStream(AnswerInfo info) : info_(std::move(info)), so_far_(info_) {}

  // Each appends to out_.
  virtual void write_begin(const Accepted& accepted) = 0;
  virtual void write_progress(const PromptProgress& progress) = 0;  // only if asked for
  virtual void write_prompt(const EchoedPrompt& /*prompt*/) {}      // so too
  virtual void write_delta(const AnswerDelta& delta, ChoiceSoFar& choice) = 0;
  virtual void write_finish(const Finished& finished, ChoiceSoFar& choice) = 0;
  virtual void write_end() = 0;
  virtual void write_failure(const ApiError& error) = 0;

  const AnswerInfo info_;
  AnswerSoFar so_far_;
  std::string out_;

 private:
  void handle(const Accepted& accepted);
  void handle(const Queued& queued);
  void handle(const PromptProgress& progress);
  void handle(const EchoedPrompt& prompt);
  void handle(const AnswerDelta& delta);
  void handle(const Finished& finished);
  void handle(const Failed& failed);

  bool ended_ = false;
};

// The same events as one JSON at the end.
class WholeAnswer {
 public:
  explicit WholeAnswer(AnswerInfo info) : info_(std::move(info)), so_far_(info_) {}

  void take(const AnswerEvent& event);
  bool ended() const { return failure_.has_value() || so_far_.is_whole(); }
  const std::optional<ApiError>& failure() const { return failure_; }
  std::string body() const;  // once ended without failure

 private:
  const AnswerInfo info_;
  AnswerSoFar so_far_;
  std::optional<ApiError> failure_;
};

}  // namespace salvage::api
