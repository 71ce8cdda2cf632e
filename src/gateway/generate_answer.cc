#include "gateway/generate_answer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "base/bounded_queue.h"
#include "gateway/answer_choice.h"
#include "gateway/prompt_logprobs.h"
#include "gateway/prompt_tokens.h"
#include "gateway/sampling_options.h"
#include "pipeline/pipeline_client.h"

namespace salvage::gateway {
namespace {

// Beside a token each: progress of the prompt, the end.
constexpr std::size_t kOtherEventsMax = 4096;

struct Event {
  std::uint32_t choice = 0;
  std::variant<ChoiceReport, Error> what;
};
// Outlives the answer: the last event may be delivered after the reader has left.
using EventQueue = std::shared_ptr<BoundedQueue<Event>>;

class PipelineAnswer final : public GeneratedAnswer {
 public:
  PipelineAnswer(const api::GenerateRequest& request, ReadyModel model, const Clock& clock,
                 std::vector<PreparedPrompt> prompts, engine::SamplingOptions sampling)
      : wish_(request),
        model_(std::move(model)),
        prompts_(std::move(prompts)),
        sampling_(std::move(sampling)),
        context_{wish_, *model_.pipeline->text().vocabulary, clock,
                 model_.pipeline->limits().context_per_sequence},
        events_(std::make_shared<BoundedQueue<Event>>(queue_capacity())),
        live_(choices()) {}

  ~PipelineAnswer() override {
    events_->close();  // nobody waits for room any more
    for (const auto& live : live_) {
      if (live && !live->choice.ended()) model_.pipeline->client().cancel(live->request);
    }
  }

  api::Parsed<void> begin(std::shared_ptr<void> held) override {
    held_ = {std::move(held), model_.pipeline->count_running()};
    for (std::uint32_t index = 0; index < choices(); ++index) {
      if (waits_for_first(index)) continue;
      auto submitted = submit(index);
      if (!submitted) return fail(blamed(submitted.error(), "prompt"));
    }
    let_go_if_begun();
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
  struct Live {
    Live(std::uint32_t index, const PreparedPrompt& prompt, const ChoiceContext& context)
        : choice(index, prompt, context) {}
    AnswerChoice choice;
    RequestId request;
  };
  // What goes when the pipeline lets go of a choice, before anybody hears that it has: who asks
  // again at once finds its place free.
  using Held = std::array<std::shared_ptr<void>, 2>;

  std::size_t queue_capacity() const {
    const std::size_t events_per_token = wish_.logprobs ? 2 : 1;
    return events_per_token * choices() * context_.context_tokens + kOtherEventsMax;
  }

  const PreparedPrompt& prompt_of(std::uint32_t choice) const {
    return prompts_[choice / wish_.choices];
  }

  // Whether the choice's prompt is read once for all its choices: the others then begin with a copy
  // of what the first one's sequence holds. Short prompts are sooner read than copied.
  bool shares_prompt(std::uint32_t index) const {
    const pipeline::SchedulerLimits& limits = model_.pipeline->limits();
    return wish_.choices > 1 && wish_.cache_prompt && !repeats_with_logprobs() &&
           (limits.can_trim || limits.checkpoint_count > 0) &&
           prompt_of(index).tokens.size() > 2 * std::size_t{pipeline::kCopyTokens};
  }
  bool waits_for_first(std::uint32_t index) const {
    return shares_prompt(index) && index % wish_.choices != 0;
  }

  Result<void> submit(std::uint32_t index) {
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
    request.handler = handler_for(index);
    if (repeats_with_logprobs()) {
      request.logits_for_prompt = true;
      request.handler.logits = prompt_rows(index);
    }
    auto live = std::make_unique<Live>(index, prompt, context_);
    ASSIGN_OR_RETURN(live->request, model_.pipeline->client().generate(std::move(request)));
    live_[index] = std::move(live);
    return {};
  }

  // The prompt of this choice is read, or it is over: the prompt's other choices begin.
  std::optional<api::AnswerEvent> begin_siblings(std::uint32_t index) {
    if (!shares_prompt(index) || waits_for_first(index) || live_[index + 1]) return std::nullopt;
    if (events_->closed()) return std::nullopt;  // nobody wants to know any more
    for (std::uint32_t sibling = index + 1; sibling < index + wish_.choices; ++sibling) {
      if (auto submitted = submit(sibling); !submitted) return failed(submitted.error());
    }
    let_go_if_begun();
    return std::nullopt;
  }
  void let_go_if_begun() {
    if (std::all_of(live_.begin(), live_.end(), [](const auto& live) { return live != nullptr; })) {
      held_ = {};
    }
  }

  pipeline::RequestHandler handler_for(std::uint32_t index) const {
    const auto put = [events = events_, index](ChoiceReport report) {
      (void)events->push(Event{index, std::move(report)});
    };
    pipeline::RequestHandler handler;
    if (index == 0) {
      // Old news may be dropped: whoever reads so slowly doesn't look at it.
      handler.queued = [events = events_](std::uint32_t place) {
        Event event{0, ChoiceReport(Waits{place})};
        (void)events->try_push(event);
      };
    }
    handler.progress = [put](std::uint32_t done, std::uint32_t total, std::uint32_t reused) {
      put(Read{done, total, reused});
    };
    if (wish_.logprobs) handler.logprobs = [put](const engine::Logprobs& report) { put(report); };
    handler.token = [put](TokenId token) { put(token); };
    const auto kept = std::make_shared<Held>(held_);
    handler.done = [put, kept](pipeline::FinishReason reason, const pipeline::RequestStats& stats) {
      *kept = {};
      put(Ended{reason, stats});
    };
    handler.failed = [events = events_, index, kept](const Error& error) {
      *kept = {};
      (void)events->push(Event{index, error});
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
          (void)events->push(Event{index, ChoiceReport(std::move(row))});
        };
  }

  std::optional<api::AnswerEvent> take(const Event& event) {
    if (failed_) return std::nullopt;
    if (const auto* error = std::get_if<Error>(&event.what)) return failed(*error);
    const auto& report = std::get<ChoiceReport>(event.what);
    const bool end = std::holds_alternative<Ended>(report);
    if (end || std::holds_alternative<TokenId>(report)) {
      if (auto failure = begin_siblings(event.choice)) return failure;
    }
    Live& live = *live_[event.choice];
    const bool was_over = live.choice.wants_no_more();
    auto shown = live.choice.take(report);
    // The end comes as an event of its own, once the pipeline has let go.
    if (!was_over && live.choice.wants_no_more()) model_.pipeline->client().cancel(live.request);
    // What was held back goes first; the end then follows at once.
    if (end && !live.choice.ended()) (void)events_->push(event, context_.clock.now());
    return shown;
  }

  api::AnswerEvent failed(const Error& error) {
    failed_ = true;
    held_ = {};
    return api::Failed{api::api_error(error)};
  }

  const api::GenerateRequest wish_;
  const ReadyModel model_;
  const std::vector<PreparedPrompt> prompts_;
  const engine::SamplingOptions sampling_;
  const ChoiceContext context_;
  const EventQueue events_;
  std::vector<std::unique_ptr<Live>> live_;  // by choice; empty before it begins
  Held held_;                                // for choices that have yet to begin
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
