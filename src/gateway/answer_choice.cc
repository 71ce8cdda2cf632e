#include "gateway/answer_choice.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace salvage::gateway {
namespace {

api::StopReason stop_reason(pipeline::FinishReason reason) {
  switch (reason) {
    case pipeline::FinishReason::kLength:
      return api::StopReason::kTokenLimit;
    case pipeline::FinishReason::kContextFull:
      return api::StopReason::kContextFull;
    default:
      return api::StopReason::kEndToken;
  }
}

double ms_between(TimePoint begin, TimePoint end) {
  return seconds_between(begin, end) * 1000;
}

}  // namespace

api::Finished finished_of(pipeline::FinishReason reason, const pipeline::RequestStats& stats,
                          std::uint32_t answer_tokens) {
  api::Finished finished{.reason = stop_reason(reason)};
  finished.usage = {.prompt_tokens = stats.prompt_tokens,
                    .cached_tokens = stats.reused_tokens,
                    .answer_tokens = answer_tokens};
  finished.timings = {.queue_ms = stats.queue_seconds * 1000,
                      .cached_tokens = stats.reused_tokens,
                      .prompt_tokens = stats.prompt_tokens - stats.reused_tokens,
                      .prompt_ms = std::max(stats.ttft_seconds - stats.queue_seconds, 0.0) * 1000,
                      .answer_tokens = answer_tokens,
                      .answer_ms = stats.decode_seconds * 1000};
  return finished;
}

AnswerChoice::AnswerChoice(std::uint32_t index, const PreparedPrompt& prompt,
                           const ChoiceContext& context)
    : index_(index),
      prompt_(prompt),
      context_(context),
      text_(context.vocabulary, prompt.stop, prompt.visible_tokens),
      parser_(prompt.make_parser ? prompt.make_parser() : nullptr),
      submitted_(context.clock.now()),
      reading_since_(submitted_) {}

std::optional<api::AnswerEvent> AnswerChoice::take(const ChoiceReport& report) {
  if (finished_) return std::nullopt;
  if (const auto* waits = std::get_if<Waits>(&report)) {
    return api::Queued{.place = waits->place, .time_ms = ms_since(submitted_)};
  }
  if (const auto* read = std::get_if<Read>(&report)) return progress(*read);
  if (const auto* row = std::get_if<PromptRow>(&report)) return repeat(*row);
  if (const auto* next = std::get_if<engine::Logprobs>(&report)) {
    logprobs_ = *next;
    return std::nullopt;
  }
  if (const auto* token = std::get_if<TokenId>(&report)) {
    // What the pipeline computed before it heard that the answer is over is no part of it.
    if (wants_no_more()) return std::nullopt;
    return delta(*token);
  }
  return finish(std::get<Ended>(report));
}

// The first one comes with the sequence, and tells what it held.
api::PromptProgress AnswerChoice::progress(const Read& read) {
  if (read.done == read.reused) reading_since_ = context_.clock.now();
  cached_tokens_ = read.reused;
  return {.choice = index_,
          .total_tokens = read.total,
          .cached_tokens = read.reused,
          .done_tokens = read.done,
          .time_ms = ms_since(reading_since_)};
}

std::optional<api::AnswerEvent> AnswerChoice::repeat(const PromptRow& row) {
  repeated_.resize(prompt_.tokens.size());
  if (row.position + 1 < prompt_.tokens.size()) {
    repeated_[row.position + 1] = named(row.next);
    return std::nullopt;
  }
  repeated_[0] = named({.chosen = {prompt_.tokens[0], 0}, .top = {}});
  repeated_[0].has_logprob = false;
  repeated_.erase(repeated_.begin(), repeated_.begin() + prompt_.put_in_front);
  return api::EchoedPrompt{.choice = index_, .tokens = std::exchange(repeated_, {})};
}

std::optional<api::AnswerEvent> AnswerChoice::delta(TokenId token) {
  if (answer_tokens_++ == 0) first_token_ = context_.clock.now();
  api::AnswerDelta delta{.choice = index_};
  const std::string text = text_.push(token);
  if (parser_) {
    if (!text.empty()) add(parser_->push(text), delta);
  } else {
    delta.text = text;
  }
  delta.tokens.push_back(token);
  if (logprobs_) delta.logprobs.push_back(named(*std::exchange(logprobs_, {})));
  if (context_.wish.timings_per_token) delta.timings = timings_now();
  has_new_line_ = has_new_line_ || text.find('\n') != std::string::npos;
  out_of_time_ = is_out_of_time();
  return delta;
}

std::int64_t AnswerChoice::ms_since(TimePoint begin) const {
  const auto time = context_.clock.now() - begin;
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

// As llama.cpp counts it: from the first token on, and never in the middle of the first line.
bool AnswerChoice::is_out_of_time() const {
  return context_.wish.predict_ms_max && has_new_line_ &&
         ms_between(first_token_, context_.clock.now()) >
             static_cast<double>(*context_.wish.predict_ms_max);
}

api::Timings AnswerChoice::timings_now() const {
  return {.queue_ms = ms_between(submitted_, reading_since_),
          .cached_tokens = cached_tokens_,
          .prompt_tokens = static_cast<std::uint32_t>(prompt_.tokens.size()) - cached_tokens_,
          .prompt_ms = ms_between(reading_since_, first_token_),
          .answer_tokens = answer_tokens_,
          .answer_ms = ms_between(first_token_, context_.clock.now())};
}

void AnswerChoice::add(std::vector<engine::ChatDelta> parts, api::AnswerDelta& delta) const {
  for (engine::ChatDelta& part : parts) {
    delta.text += part.content;
    delta.reasoning += part.reasoning;
    if (!part.tool_call) continue;
    delta.calls.push_back({.index = static_cast<std::uint32_t>(part.tool_call->index),
                           .id = std::move(part.tool_call->id),
                           .name = std::move(part.tool_call->name),
                           .arguments = std::move(part.tool_call->arguments)});
  }
}

api::TokenLogprob AnswerChoice::named(const engine::Logprobs& report) const {
  const engine::Vocabulary& vocabulary = context_.vocabulary;
  api::TokenLogprob named{.id = report.chosen.token,
                          .bytes = vocabulary.piece(report.chosen.token, true),
                          .logprob = report.chosen.logprob};
  for (const engine::TokenLogprob& one : report.top) {
    named.top.push_back({one.token, vocabulary.piece(one.token, true), one.logprob});
  }
  return named;
}

std::optional<api::AnswerEvent> AnswerChoice::finish(const Ended& ended) {
  if (flushed_) return finished(ended);
  flushed_ = true;
  api::AnswerDelta rest{.choice = index_};
  const std::string text = text_.finish();
  if (parser_) {
    if (!text.empty()) add(parser_->push(text), rest);
    add(parser_->finish(), rest);
  } else {
    rest.text = text;
  }
  if (!rest.text.empty() || !rest.reasoning.empty() || !rest.calls.empty()) return rest;
  return finished(ended);
}

api::Finished AnswerChoice::finished(const Ended& ended) {
  finished_ = true;
  // The token that ended the answer was computed as well, and everybody counts it.
  if (ended.reason == pipeline::FinishReason::kStop) ++answer_tokens_;
  api::Finished finished = finished_of(ended.reason, ended.stats, answer_tokens_);
  finished.choice = index_;
  // The limit is never beyond the context's end, so reaching that looks like reaching a limit.
  if (ended.reason == pipeline::FinishReason::kLength && fills_context()) {
    finished.reason = api::StopReason::kContextFull;
  }
  if (out_of_time_) finished.reason = api::StopReason::kTimeLimit;
  if (text_.stopped()) {
    finished.reason = api::StopReason::kStopText;
    finished.stop_text = text_.stop_found();
  }
  return finished;
}

bool AnswerChoice::fills_context() const {
  return prompt_.tokens.size() + answer_tokens_ >= context_.context_tokens;
}

}  // namespace salvage::gateway
