#include "gateway/generate_answer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "base/bounded_queue.h"
#include "gateway/prompt_logprobs.h"
#include "gateway/prompt_tokens.h"
#include "gateway/sampling_options.h"
#include "pipeline/pipeline_client.h"
#include "pipeline/text_stream.h"

namespace salvage::gateway {
namespace {

// Beside a token each: progress of the prompt, the end.
constexpr std::size_t kOtherEventsMax = 4096;

struct Waits {
  std::uint32_t place;
};
struct Read {  // of the prompt
  std::uint32_t done;
  std::uint32_t total;
  std::uint32_t reused;
};
struct PromptRow {  // where a prompt is repeated with logprobs: of the token after a position
  std::uint32_t position;
  engine::Logprobs next;
};
struct Ended {
  pipeline::FinishReason reason;
  pipeline::RequestStats stats;
};
struct Event {
  std::uint32_t choice = 0;
  std::variant<Waits, Read, PromptRow, engine::Logprobs, TokenId, Ended, Error> what;
};
// Outlives the answer: the last event may be delivered after the reader has left.
using EventQueue = std::shared_ptr<BoundedQueue<Event>>;

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

struct Choice {
  Choice(const engine::Vocabulary& vocabulary, const PreparedPrompt& prompt)
      : text(vocabulary, prompt.stop, prompt.visible_tokens),
        parser(prompt.make_parser ? prompt.make_parser() : nullptr) {}
  pipeline::TextStream text;
  std::unique_ptr<engine::ChatParser> parser;  // of a chat
  std::vector<api::TokenLogprob> repeated;     // of the prompt, as far as known
  std::optional<engine::Logprobs> logprobs;    // of the token that comes next
  std::optional<RequestId> request;
  std::uint32_t answer_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of the prompt
  TimePoint begun;
  TimePoint first_token;
  bool has_new_line = false;
  bool out_of_time = false;
  bool flushed = false;  // what text and parser held back has been told
  bool finished = false;
};

class PipelineAnswer final : public GeneratedAnswer {
 public:
  PipelineAnswer(const api::GenerateRequest& request, ReadyModel model, const Clock& clock,
                 std::vector<PreparedPrompt> prompts, engine::SamplingOptions sampling)
      : wish_(request),
        model_(std::move(model)),
        clock_(clock),
        prompts_(std::move(prompts)),
        sampling_(std::move(sampling)),
        events_(std::make_shared<BoundedQueue<Event>>(queue_capacity())) {}

  ~PipelineAnswer() override {
    events_->close();  // nobody waits for room any more
    for (const auto& choice : live_) {
      if (choice->request && !choice->finished) model_.pipeline->client().cancel(*choice->request);
    }
  }

  api::Parsed<void> begin(std::shared_ptr<void> held) override {
    const std::shared_ptr<void> running = model_.pipeline->count_running();
    for (std::uint32_t index = 0; index < choices(); ++index) {
      auto submitted = submit(index, {held, running});
      if (!submitted) return fail(blamed(submitted.error(), "prompt"));
    }
    return {};
  }

  std::optional<api::AnswerEvent> next(TimePoint until) override {
    for (;;) {
      std::optional<Event> event = events_->pop(until);
      if (!event) return std::nullopt;
      if (auto shown = take(*event)) return shown;
    }
  }

  void forsake() override { events_->close(); }

  std::uint32_t prompt_tokens() const override {
    std::uint32_t sum = 0;
    for (const PreparedPrompt& prompt : prompts_) {
      sum += static_cast<std::uint32_t>(prompt.tokens.size());
    }
    return sum;
  }
  std::uint32_t choices() const override {
    return static_cast<std::uint32_t>(prompts_.size()) * wish_.choices;
  }
  std::vector<std::string> prompt_texts() const override {
    std::vector<std::string> texts;
    for (const PreparedPrompt& prompt : prompts_) texts.push_back(prompt.text);
    return texts;
  }

 private:
  std::size_t queue_capacity() const {
    const std::size_t events_per_token = wish_.logprobs ? 2 : 1;
    return events_per_token * choices() * model_.pipeline->limits().context_per_sequence +
           kOtherEventsMax;
  }

  const PreparedPrompt& prompt_of(std::uint32_t choice) const {
    return prompts_[choice / wish_.choices];
  }

  // What goes when the pipeline lets go of a choice, before anybody hears that it has: who asks
  // again at once finds its place free.
  using Held = std::array<std::shared_ptr<void>, 2>;

  Result<void> submit(std::uint32_t index, const Held& held) {
    const engine::TextTools& text = model_.pipeline->text();
    const PreparedPrompt& prompt = prompt_of(index);
    pipeline::GenerateRequest request;
    request.prompt = prompt.tokens;
    request.turn = prompt.turn;
    request.reuse_prefix = wish_.cache_prompt;
    request.answer_tokens_max = prompt.answer_tokens_max;
    engine::SamplingOptions sampling = sampling_;
    sampling.seed += index;  // choices differ
    sampling.grammar = prompt.grammar;
    sampling.thinking = prompt.thinking;
    ASSIGN_OR_RETURN(request.sampler, text.make_sampler(sampling));
    if (!wish_.sampler.ignore_eos) {
      request.ends = [vocabulary = text.vocabulary](TokenId token) {
        return vocabulary->ends_generation(token);
      };
    }
    request.priority = wish_.priority;
    request.handler = handler_for(index, held);
    if (repeats_with_logprobs()) {
      request.logits_for_prompt = true;
      request.handler.logits = prompt_rows(index);
    }
    auto choice = std::make_unique<Choice>(*text.vocabulary, prompt);
    choice->begun = clock_.now();
    ASSIGN_OR_RETURN(choice->request, model_.pipeline->client().generate(std::move(request)));
    live_.push_back(std::move(choice));
    return {};
  }

  pipeline::RequestHandler handler_for(std::uint32_t index, const Held& held) const {
    const auto put = [events = events_, index](auto what) {
      (void)events->push(Event{index, std::move(what)});
    };
    pipeline::RequestHandler handler;
    if (index == 0) {
      // Old news may be dropped: whoever reads so slowly doesn't look at it.
      handler.queued = [events = events_](std::uint32_t place) {
        Event event{0, Waits{place}};
        (void)events->try_push(event);
      };
    }
    handler.progress = [put](std::uint32_t done, std::uint32_t total, std::uint32_t reused) {
      put(Read{done, total, reused});
    };
    if (wish_.logprobs) handler.logprobs = [put](const engine::Logprobs& report) { put(report); };
    handler.token = [put](TokenId token) { put(token); };
    const auto kept = std::make_shared<Held>(held);
    handler.done = [put, kept](pipeline::FinishReason reason, const pipeline::RequestStats& stats) {
      *kept = {};
      put(Ended{reason, stats});
    };
    handler.failed = [put, kept](const Error& error) {
      *kept = {};
      put(error);
    };
    return handler;
  }

  bool repeats_with_logprobs() const { return wish_.echo && wish_.logprobs; }

  // The last row of the prompt, which is about the answer, says that all are there.
  std::function<void(std::uint32_t, std::span<const float>)> prompt_rows(
      std::uint32_t index) const {
    return
        [events = events_, index, tokens = prompt_of(index).tokens,
         top = wish_.logprobs.value_or(0)](std::uint32_t position, std::span<const float> logits) {
          if (position >= tokens.size()) return;
          PromptRow row{.position = position, .next = {}};
          if (position + 1 < tokens.size())
            row.next = logprobs_in(logits, tokens[position + 1], top);
          (void)events->push(Event{index, std::move(row)});
        };
  }

  std::optional<api::AnswerEvent> take(const Event& event) {
    if (failed_ || event.choice >= live_.size()) return std::nullopt;
    Choice& choice = *live_[event.choice];
    if (choice.finished) return std::nullopt;
    if (const auto* waits = std::get_if<Waits>(&event.what)) {
      return api::Queued{.place = waits->place, .time_ms = ms_since(choice.begun)};
    }
    if (const auto* read = std::get_if<Read>(&event.what)) {
      return progress(event.choice, choice, *read);
    }
    if (const auto* row = std::get_if<PromptRow>(&event.what)) {
      return repeat(event.choice, choice, *row);
    }
    if (const auto* report = std::get_if<engine::Logprobs>(&event.what)) {
      choice.logprobs = *report;
      return std::nullopt;
    }
    if (const auto* token = std::get_if<TokenId>(&event.what)) {
      // What the pipeline computed before it heard that the answer is over is no part of it.
      if (choice.text.stopped() || choice.out_of_time) return std::nullopt;
      return delta(event.choice, choice, *token);
    }
    if (const auto* ended = std::get_if<Ended>(&event.what)) {
      return finish(event.choice, choice, *ended);
    }
    failed_ = true;
    return api::Failed{api::api_error(std::get<Error>(event.what))};
  }

  std::optional<api::AnswerEvent> repeat(std::uint32_t index, Choice& choice,
                                         const PromptRow& row) const {
    const PreparedPrompt& prompt = prompt_of(index);
    choice.repeated.resize(prompt.tokens.size());
    if (row.position + 1 < prompt.tokens.size()) {
      choice.repeated[row.position + 1] = named(row.next);
      return std::nullopt;
    }
    choice.repeated[0] = named({.chosen = {prompt.tokens[0], 0}, .top = {}});
    choice.repeated[0].has_logprob = false;
    choice.repeated.erase(choice.repeated.begin(), choice.repeated.begin() + prompt.put_in_front);
    return api::EchoedPrompt{.choice = index, .tokens = std::exchange(choice.repeated, {})};
  }

  api::PromptProgress progress(std::uint32_t index, Choice& choice, const Read& read) const {
    choice.cached_tokens = read.reused;
    return {.choice = index,
            .total_tokens = read.total,
            .cached_tokens = read.reused,
            .done_tokens = read.done,
            .time_ms = ms_since(choice.begun)};
  }

  std::int64_t ms_since(TimePoint begin) const {
    const auto time = clock_.now() - begin;
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  }

  api::AnswerEvent delta(std::uint32_t index, Choice& choice, TokenId token) {
    if (choice.answer_tokens++ == 0) choice.first_token = clock_.now();
    api::AnswerDelta delta{.choice = index};
    const std::string text = choice.text.push(token);
    if (choice.parser) {
      if (!text.empty()) add(choice.parser->push(text), delta);
    } else {
      delta.text = text;
    }
    delta.tokens.push_back(token);
    if (choice.logprobs) delta.logprobs.push_back(named(*std::exchange(choice.logprobs, {})));
    if (wish_.timings_per_token) delta.timings = timings_now(choice, prompt_of(index));
    choice.has_new_line = choice.has_new_line || text.find('\n') != std::string::npos;
    choice.out_of_time = is_out_of_time(choice);
    // The end comes as an event of its own, once the pipeline has let go.
    if (choice.text.stopped() || choice.out_of_time) {
      model_.pipeline->client().cancel(*choice.request);
    }
    return delta;
  }

  static double ms_between(TimePoint begin, TimePoint end) {
    return std::chrono::duration<double, std::milli>(end - begin).count();
  }

  // As llama.cpp counts it: from the first token on, and never in the middle of the first line.
  bool is_out_of_time(const Choice& choice) const {
    return wish_.predict_ms_max && choice.has_new_line &&
           ms_between(choice.first_token, clock_.now()) >
               static_cast<double>(*wish_.predict_ms_max);
  }

  api::Timings timings_now(const Choice& choice, const PreparedPrompt& prompt) const {
    return {
        .cached_tokens = choice.cached_tokens,
        .prompt_tokens = static_cast<std::uint32_t>(prompt.tokens.size()) - choice.cached_tokens,
        .prompt_ms = ms_between(choice.begun, choice.first_token),
        .answer_tokens = choice.answer_tokens,
        .answer_ms = ms_between(choice.first_token, clock_.now())};
  }

  static void add(std::vector<engine::ChatDelta> parts, api::AnswerDelta& delta) {
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

  api::TokenLogprob named(const engine::Logprobs& report) const {
    const engine::Vocabulary& vocabulary = *model_.pipeline->text().vocabulary;
    api::TokenLogprob named{.id = report.chosen.token,
                            .bytes = vocabulary.piece(report.chosen.token, true),
                            .logprob = report.chosen.logprob};
    for (const engine::TokenLogprob& one : report.top) {
      named.top.push_back({one.token, vocabulary.piece(one.token, true), one.logprob});
    }
    return named;
  }

  // What was held back goes first; the end then follows at once.
  std::optional<api::AnswerEvent> finish(std::uint32_t index, Choice& choice, const Ended& ended) {
    api::AnswerDelta rest{.choice = index};
    const std::string text = choice.text.finish();
    if (choice.parser && !choice.flushed) {
      if (!text.empty()) add(choice.parser->push(text), rest);
      add(choice.parser->finish(), rest);
    } else {
      rest.text = text;
    }
    choice.flushed = true;
    if (!rest.text.empty() || !rest.reasoning.empty() || !rest.calls.empty()) {
      (void)events_->push(Event{index, ended}, clock_.now());
      return rest;
    }
    choice.finished = true;
    api::Finished finished{.choice = index, .reason = stop_reason(ended.reason)};
    // The limit is never beyond the context's end, so reaching that looks like reaching a limit.
    if (ended.reason == pipeline::FinishReason::kLength && fills_context(index, choice)) {
      finished.reason = api::StopReason::kContextFull;
    }
    if (choice.out_of_time) finished.reason = api::StopReason::kTimeLimit;
    if (choice.text.stopped()) {
      finished.reason = api::StopReason::kStopText;
      finished.stop_text = choice.text.stop_found();
    }
    // The token that ended the answer was computed as well, and everybody counts it.
    if (ended.reason == pipeline::FinishReason::kStop) ++choice.answer_tokens;
    const pipeline::RequestStats& stats = ended.stats;
    finished.usage = {.prompt_tokens = stats.prompt_tokens,
                      .cached_tokens = stats.reused_tokens,
                      .answer_tokens = choice.answer_tokens};
    finished.timings = {.queue_ms = stats.queue_seconds * 1000,
                        .cached_tokens = stats.reused_tokens,
                        .prompt_tokens = stats.prompt_tokens - stats.reused_tokens,
                        .prompt_ms = std::max(stats.ttft_seconds - stats.queue_seconds, 0.0) * 1000,
                        .answer_tokens = choice.answer_tokens,
                        .answer_ms = stats.decode_seconds * 1000};
    return finished;
  }

  bool fills_context(std::uint32_t index, const Choice& choice) const {
    return prompt_of(index).tokens.size() + choice.answer_tokens >=
           model_.pipeline->limits().context_per_sequence;
  }

  const api::GenerateRequest wish_;
  const ReadyModel model_;
  const Clock& clock_;
  const std::vector<PreparedPrompt> prompts_;
  const engine::SamplingOptions sampling_;
  const EventQueue events_;
  std::vector<std::unique_ptr<Choice>> live_;
  bool failed_ = false;
};

}  // namespace

api::Parsed<std::unique_ptr<GeneratedAnswer>> GeneratedAnswer::prepare(
    const api::GenerateRequest& request, ReadyModel model, const Clock& clock) {
  ASSIGN_OR_RETURN(std::vector<PreparedPrompt> prompts, prepare_prompts(request, model));
  ASSIGN_OR_RETURN(engine::SamplingOptions sampling,
                   sampling_options(request, *model.pipeline->text().vocabulary,
                                    model.pipeline->limits().context_per_sequence));
  return std::unique_ptr<GeneratedAnswer>(std::make_unique<PipelineAnswer>(
      request, std::move(model), clock, std::move(prompts), std::move(sampling)));
}

}  // namespace salvage::gateway
