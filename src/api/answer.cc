#include "api/answer.h"

#include <algorithm>
#include <utility>

#include "api/anthropic/messages_answer.h"
#include "api/llama/completion_answer.h"
#include "api/openai/chat_answer.h"
#include "api/openai/completions_answer.h"
#include "api/openai/responses_answer.h"
#include "api/sse.h"
#include "api/value_json.h"

namespace salvage::api {

AnswerSoFar::AnswerSoFar(const AnswerInfo& info)
    : choices_per_prompt(std::max(info.choices_per_prompt, 1U)) {
  for (std::uint32_t i = 0; i < info.choices; ++i) {
    choices.emplace_back(info.choices == 1 ? info.unique : info.unique + std::to_string(i));
  }
}

ChoiceSoFar* AnswerSoFar::live(std::uint32_t choice) {
  if (choice >= choices.size() || choices[choice].finished) return nullptr;
  return &choices[choice];
}

bool AnswerSoFar::is_whole() const {
  return std::all_of(choices.begin(), choices.end(),
                     [](const ChoiceSoFar& choice) { return choice.finished.has_value(); });
}

Usage AnswerSoFar::usage() const {
  Usage sum;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].finished) continue;
    const Usage& one = choices[i].finished->usage;
    sum.answer_tokens += one.answer_tokens;
    sum.reasoning_tokens += one.reasoning_tokens;
    if (i % choices_per_prompt != 0) continue;
    sum.prompt_tokens += one.prompt_tokens;
    sum.cached_tokens += one.cached_tokens;
  }
  return sum;
}

std::unique_ptr<AnswerStream> AnswerStream::make(AnswerInfo info) {
  switch (info.dialect) {
    case Dialect::kChat:
      return make_chat_stream(std::move(info));
    case Dialect::kCompletions:
      return make_completions_stream(std::move(info));
    case Dialect::kResponses:
      return make_responses_stream(std::move(info));
    case Dialect::kMessages:
      return make_messages_stream(std::move(info));
    case Dialect::kLlama:
      return make_llama_stream(std::move(info));
  }
  return make_chat_stream(std::move(info));
}

std::string AnswerStream::ping() const {
  return std::string(kSsePing);
}

std::string AnswerStream::take(const AnswerEvent& event) {
  if (ended_) return {};
  std::visit([this](const auto& it) { handle(it); }, event);
  return std::exchange(out_, {});
}

void AnswerStream::handle(const Accepted& accepted) {
  so_far_.prompt_tokens = accepted.prompt_tokens;
  out_ += kSsePing;
  write_begin(accepted);
}

void AnswerStream::handle(const Queued& queued) {
  out_ += sse_news({{"stage", "queued"}, {"place", queued.place}});
  if (!info_.return_progress) return;
  write_progress({.total_tokens = so_far_.prompt_tokens,
                  .time_ms = queued.time_ms,
                  .queue_place = queued.place});
}

void AnswerStream::handle(const PromptProgress& progress) {
  out_ += sse_news(progress_news(progress));
  if (info_.return_progress && so_far_.live(progress.choice) != nullptr) write_progress(progress);
}

void AnswerStream::handle(const EchoedPrompt& prompt) {
  if (so_far_.live(prompt.choice) != nullptr) write_prompt(prompt);
}

void AnswerStream::handle(const AnswerDelta& delta) {
  ChoiceSoFar* choice = so_far_.live(delta.choice);
  if (choice == nullptr) return;
  choice->tokens.insert(choice->tokens.end(), delta.tokens.begin(), delta.tokens.end());
  write_delta(delta, *choice);
}

void AnswerStream::handle(const Finished& finished) {
  ChoiceSoFar* choice = so_far_.live(finished.choice);
  if (choice == nullptr) return;
  choice->finished = finished;
  write_finish(finished, *choice);
  if (!so_far_.is_whole()) return;
  write_end();
  ended_ = true;
}

void AnswerStream::handle(const Failed& failed) {
  write_failure(failed.error);
  ended_ = true;
}

void WholeAnswer::take(const AnswerEvent& event) {
  if (ended()) return;
  if (const auto* failed = std::get_if<Failed>(&event)) {
    failure_ = failed->error;
  } else if (const auto* delta = std::get_if<AnswerDelta>(&event)) {
    ChoiceSoFar* choice = so_far_.live(delta->choice);
    if (choice == nullptr) return;
    choice->segments.add(*delta, nullptr);
    choice->tokens.insert(choice->tokens.end(), delta->tokens.begin(), delta->tokens.end());
    choice->logprobs.insert(choice->logprobs.end(), delta->logprobs.begin(), delta->logprobs.end());
  } else if (const auto* prompt = std::get_if<EchoedPrompt>(&event)) {
    ChoiceSoFar* choice = so_far_.live(prompt->choice);
    if (choice != nullptr) choice->logprobs = prompt->tokens;
  } else if (const auto* finished = std::get_if<Finished>(&event)) {
    ChoiceSoFar* choice = so_far_.live(finished->choice);
    if (choice == nullptr) return;
    choice->segments.finish(nullptr);
    choice->finished = *finished;
  } else if (const auto* accepted = std::get_if<Accepted>(&event)) {
    so_far_.prompt_tokens = accepted->prompt_tokens;
  }
}

std::string WholeAnswer::body() const {
  switch (info_.dialect) {
    case Dialect::kChat:
      return to_line(chat_whole(info_, so_far_));
    case Dialect::kCompletions:
      return to_line(completions_whole(info_, so_far_));
    case Dialect::kResponses:
      return to_line(responses_whole(info_, so_far_));
    case Dialect::kMessages:
      return to_line(messages_whole(info_, so_far_));
    case Dialect::kLlama:
      return to_line(llama_whole(info_, so_far_));
  }
  return {};
}

}  // namespace salvage::api
