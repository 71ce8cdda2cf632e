#include "gateway/command_answers.h"

#include <utility>

#include "api/errors.h"
#include "api/events.h"
#include "base/random.h"
#include "gateway/answer_choice.h"
#include "gateway/answer_watch.h"

namespace salvage::gateway {
namespace {

Result<pipeline::GenerationOptions> generation_options(const coordinator::ClusterPipeline& ready,
                                                       const coordinator::RunWish& wish) {
  pipeline::GenerationOptions options;
  options.tokens_max = wish.tokens_max;
  options.sampling = wish.sampling;
  options.hash_logits = wish.hash_logits;
  RETURN_IF_ERROR(pipeline::set_prompt(ready.text(), wish.prompt, wish.chat, options));
  return options;
}

// What the ledger hears beside what `show` gets.
pipeline::GenerationListener listener_for(AnswerWatch& watch,
                                          const std::function<bool(std::string_view)>& show) {
  pipeline::GenerationListener listener;
  listener.show = show;
  listener.queued = [&watch](std::uint32_t place) { watch.take(api::Queued{.place = place}); };
  listener.progress = [&watch](std::uint32_t done, std::uint32_t total, std::uint32_t reused) {
    watch.take(
        api::PromptProgress{.total_tokens = total, .cached_tokens = reused, .done_tokens = done});
  };
  listener.token = [&watch](TokenId token) {
    api::AnswerDelta delta;
    delta.tokens.push_back(token);
    watch.take(delta);
  };
  return listener;
}

// The last word about an answer that somebody read to its end.
void close(AnswerWatch& watch, const pipeline::Generation& generation) {
  const auto tokens = static_cast<std::uint32_t>(generation.tokens.size());
  watch.take(
      finished_of(generation.reason, generation.stats, tokens + (generation.by_end_token ? 1 : 0)));
  watch.close();
}

void close(AnswerWatch& watch, const api::ApiError& error) {
  watch.take(api::Failed{error});
  watch.close();
}

// A prompt that is too long has a code of its own.
api::ApiError told_error(const Error& error, bool too_long) {
  api::ApiError told = api::api_error(error);
  if (too_long) told.kind = api::ErrorKind::kContextLengthExceeded;
  return told;
}

// Where nobody is told how it ended, the watch knows by itself: who asked has gone.
Result<pipeline::Generation> watched_answer(coordinator::ClusterPipeline& pipeline,
                                            const pipeline::GenerationOptions& options,
                                            AnswerWatch& watch,
                                            const std::function<bool(std::string_view)>& show,
                                            const StopToken& stop) {
  StopSource ends;
  const auto end = [&ends] { ends.request_stop(); };
  const std::stop_callback by_asker(stop, end);
  const std::stop_callback by_owner(watch.cancel_token(), end);
  const auto running = pipeline.count_running();
  auto generation = pipeline::generate(pipeline.client(), pipeline.text(), options,
                                       listener_for(watch, show), ends.get_token());
  if (generation) {
    if (generation->reason != pipeline::FinishReason::kCancelled) close(watch, *generation);
    return generation;
  }
  if (stop.stop_requested()) return generation;
  if (watch.cancel_token().stop_requested()) {
    const Error error(ErrorCode::kCancelled, "who runs the cluster has ended this request");
    close(watch, {.kind = api::ErrorKind::kRequestCancelled, .message = error.message()});
    return fail(error);
  }
  const bool too_long = options.prompt.size() > pipeline.limits().context_per_sequence;
  close(watch, told_error(generation.error(), too_long));
  return generation;
}

}  // namespace

Error CommandAnswers::refused(metrics::RequestFacts facts, Error error, TimePoint begun) const {
  const std::string_view code = api::facts_of(api::api_error(error).kind).code;
  log_request(ledger_.refuse(std::move(facts), code, begun, clock_.now()));
  return error;
}

Result<coordinator::RunOutcome> CommandAnswers::answer(
    const coordinator::RunWish& wish, const std::function<bool(std::string_view)>& show,
    const StopToken& stop) const {
  const TimePoint begun = clock_.now();
  metrics::RequestFacts facts;
  facts.id = "run_" + random_hex(12).value_or("0");
  facts.command = "salvage run";
  facts.model = wish.model;
  facts.stream = true;
  facts.begun_unix_ms = parts_.wall_ms();
  auto ready = parts_.ready(wish.model);
  if (!ready) return fail(refused(std::move(facts), ready.error(), begun));
  facts.model = ready->deployment.model_name;
  for (const coordinator::StageInfo& stage : ready->deployment.stages) {
    facts.machines.push_back(stage.status.placed.name);
  }
  const auto options = generation_options(*ready->pipeline, wish);
  if (!options) return fail(refused(std::move(facts), options.error(), begun));
  facts.prompt_tokens = static_cast<std::uint32_t>(options->prompt.size());
  AnswerWatch watch(ledger_, clock_, std::move(facts), begun);
  ASSIGN_OR_RETURN(auto generation, watched_answer(*ready->pipeline, *options, watch, show, stop));
  return coordinator::RunOutcome{std::move(generation), std::move(ready->deployment)};
}

}  // namespace salvage::gateway
