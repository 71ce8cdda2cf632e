#include "gateway/answer_endpoints.h"

#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"
#include "gateway/answer_watch.h"
#include "gateway/server_info.h"

namespace salvage::gateway {
namespace {

// Frames that wait together leave together, up to about so much.
constexpr std::size_t kWriteBytes = 16384;

}  // namespace

struct AnswerEndpoints::Making {
  Making(std::unique_ptr<AnswerWatch> watching, std::unique_ptr<GeneratedAnswer> begun)
      : watch(std::move(watching)),
        answer(std::move(begun)),
        cancel(watch->cancel_token(), [this] { answer->forsake(); }) {}

  // The next event, also that somebody ended the request; none once `until` has passed.
  std::optional<api::AnswerEvent> next(TimePoint until) {
    std::optional<api::AnswerEvent> event;
    if (!cancelled()) event = answer->next(until);
    if (cancelled()) {
      event = api::Failed{{.kind = api::ErrorKind::kRequestCancelled,
                           .message = "Who runs the cluster has ended this request."}};
    }
    if (event) watch->take(*event);
    return event;
  }
  bool cancelled() const { return watch->cancel_token().stop_requested(); }

  const std::unique_ptr<AnswerWatch> watch;
  const std::unique_ptr<GeneratedAnswer> answer;  // ends first, and frees its sequences
  const std::stop_callback<std::function<void()>> cancel;
  Duration ping_time{};  // 0: no pings
};

AnswerEndpoints::AnswerEndpoints(AnswerOptions options, ServingBackend& backend,
                                 metrics::RequestLedger& ledger, const ApiKeys& keys,
                                 const Clock& clock)
    : options_(std::move(options)),
      backend_(backend),
      ledger_(ledger),
      keys_(keys),
      clock_(clock),
      admission_(options_.answers_max) {}

metrics::RequestFacts AnswerEndpoints::facts_of(const ApiCall& call) const {
  metrics::RequestFacts facts;
  facts.id = call.id;
  facts.endpoint = call.endpoint().value_or(api::Route::kPage);
  facts.who = keys_.name_of(call.request);
  facts.begun_unix_ms = options_.wall_ms();
  return facts;
}

http::HttpReply AnswerEndpoints::refused(const ApiCall& call, metrics::RequestFacts facts,
                                         const api::ApiError& error) {
  log_request(
      ledger_.refuse(std::move(facts), api::facts_of(error.kind).code, call.begun, clock_.now()));
  return call.error(error);
}

http::HttpReply AnswerEndpoints::reply(const ApiCall& call, api::Dialect dialect,
                                       const StopToken& gone) {
  metrics::RequestFacts facts = facts_of(call);
  auto request = api::parse_request(dialect, call.request.body);
  if (!request) return refused(call, std::move(facts), request.error());
  facts.stream = request->stream;
  auto model = ready_model(backend_, request->model);
  if (!model) return refused(call, std::move(facts), model.error());
  facts.model = model->name;
  facts.machines = model->machines;
  auto answer = GeneratedAnswer::prepare(*request, *model, clock_);
  if (!answer) return refused(call, std::move(facts), answer.error());
  facts.answers = (*answer)->choices();
  facts.prompt_tokens = (*answer)->prompt_tokens() * request->choices;
  if (auto begun = begin(**answer, facts.answers); !begun) {
    return refused(call, std::move(facts), begun.error());
  }
  api::AnswerInfo info = info_of(call, *request, *model, **answer);
  const auto making = std::make_shared<Making>(
      std::make_unique<AnswerWatch>(ledger_, clock_, std::move(facts), call.begun),
      std::move(*answer));
  making->ping_time =
      request->ping_seconds ? std::chrono::seconds(*request->ping_seconds) : options_.ping_time;
  http::HttpReply reply = request->stream ? stream(std::move(info), making)
                                          : whole(call, std::move(info), *making, gone);
  call.put_id(reply);
  reply.headers.emplace_back("x-salvage-model", model->name);
  return reply;
}

api::Parsed<void> AnswerEndpoints::begin(GeneratedAnswer& answer, std::uint32_t choices) {
  auto entered = admission_.enter(choices);
  if (!entered) {
    return fail(api::ApiError{
        .kind = api::ErrorKind::kQueueFull,
        .message = fmt::format("{} answers are under way or waiting, and no more may wait; try "
                               "again later.",
                               admission_.live())});
  }
  return answer.begin(std::make_shared<Admission::Ticket>(std::move(*entered)));
}

api::AnswerInfo AnswerEndpoints::info_of(const ApiCall& call, const api::GenerateRequest& request,
                                         const ReadyModel& model,
                                         const GeneratedAnswer& answer) const {
  api::AnswerInfo info = api::answer_info(request);
  info.unique = random_hex(12).value_or("0");
  info.created_s = options_.wall_ms() / 1000;
  info.model = model.name;
  info.fingerprint = options_.fingerprint;
  info.request_id = call.id;
  if (info.wants_prompts()) info.prompts = answer.prompt_texts();
  return info;
}

http::HttpReply AnswerEndpoints::stream(api::AnswerInfo info,
                                        std::shared_ptr<Making> making) const {
  http::HttpReply reply{.content_type = "text/event-stream; charset=utf-8"};
  reply.headers.emplace_back("Cache-Control", "no-cache");
  reply.headers.emplace_back("X-Accel-Buffering", "no");
  reply.stream = [this, info = std::move(info), making = std::move(making)](http::HttpBody& body,
                                                                            const StopToken& gone) {
    const std::stop_callback forsake(gone, [&making] { making->answer->forsake(); });
    const auto stream = api::AnswerStream::make(info);
    if (!body.write(stream->take(api::Accepted{making->answer->prompt_tokens()}))) return;
    while (!stream->ended() && !gone.stop_requested()) {
      const std::string frames = next_frames(*stream, *making);
      if (!frames.empty() && !body.write(frames)) return;
    }
    if (stream->ended()) making->watch->close();
  };
  return reply;
}

// What there is to say next, and whatever waits behind it; a ping if there is nothing for long.
std::string AnswerEndpoints::next_frames(api::AnswerStream& stream, Making& making) const {
  const TimePoint ping_at =
      making.ping_time == Duration{} ? kNoDeadline : deadline_after(clock_.now(), making.ping_time);
  std::string frames;
  while (!stream.ended()) {
    const auto event = making.next(frames.empty() ? ping_at : TimePoint{});
    if (!event) break;
    frames += stream.take(*event);
    if (frames.size() >= kWriteBytes) break;
  }
  return frames.empty() && !stream.ended() ? stream.ping() : frames;
}

http::HttpReply AnswerEndpoints::whole(const ApiCall& call, api::AnswerInfo info, Making& making,
                                       const StopToken& gone) const {
  const std::stop_callback forsake(gone, [&making] { making.answer->forsake(); });
  api::WholeAnswer whole(std::move(info));
  whole.take(api::Accepted{making.answer->prompt_tokens()});
  while (!whole.ended()) {
    if (gone.stop_requested()) {
      return call.error({.kind = api::ErrorKind::kClientClosed, .message = "The client has gone."});
    }
    if (const auto event = making.next(kNoDeadline)) whole.take(*event);
  }
  making.watch->close();
  if (whole.failure()) return call.error(*whole.failure());
  return http::HttpReply{.body = whole.body()};
}

}  // namespace salvage::gateway
