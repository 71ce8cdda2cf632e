#include "gateway/api_handler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "api/answer.h"
#include "api/anthropic/messages_answer.h"
#include "api/llama/text_requests.h"
#include "api/openai/responses_answer.h"
#include "api/server_bodies.h"
#include "base/random.h"
#include "gateway/prompt_tokens.h"
#include "http/web_origin.h"

namespace salvage::gateway {
namespace {

constexpr std::size_t kRequestIdBytesMax = 128;
// Frames that wait together leave together, up to about so much.
constexpr std::size_t kWriteBytes = 16384;

// The client's own name for the request, if it is one that may stand in a header and a log.
std::string request_id_of(const http::HttpRequest& request) {
  const std::string_view theirs = request.header("x-request-id");
  const bool good =
      !theirs.empty() && theirs.size() <= kRequestIdBytesMax &&
      std::all_of(theirs.begin(), theirs.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (good) return std::string(theirs);
  return "req_" + random_hex(12).value_or("0");
}

}  // namespace

struct ApiHandler::Call {
  Call(const http::HttpRequest& http_request, TimePoint now)
      : request(http_request),
        begun(now),
        id(request_id_of(http_request)),
        route(api::match_route(
            {.method = http_request.method,
             .target = http_request.target,
             .has_anthropic_version = !http_request.header("anthropic-version").empty()})) {}

  http::HttpReply error(const api::ApiError& error) const {
    api::ErrorAnswer answer = api::render_error(error, route.dress, id);
    http::HttpReply reply{.status = answer.status, .body = std::move(answer.body)};
    reply.headers = std::move(answer.headers);
    put_id(reply);
    return reply;
  }
  http::HttpReply json(std::string body, const char* content_type = "application/json") const {
    http::HttpReply reply{.content_type = content_type, .body = std::move(body)};
    put_id(reply);
    return reply;
  }
  // Anthropic's clients look for it under another name.
  void put_id(http::HttpReply& reply) const {
    reply.headers.emplace_back("x-request-id", id);
    if (route.dress == api::Dress::kAnthropic) reply.headers.emplace_back("request-id", id);
  }

  std::optional<api::Route> endpoint() const {
    return route.match ? std::optional(route.match->route) : std::nullopt;
  }

  const http::HttpRequest& request;
  const TimePoint begun;
  const std::string id;
  const api::RouteAnswer route;
};

struct ApiHandler::Making {
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

ApiHandler::ApiHandler(ApiOptions options, ServingBackend& backend, metrics::RequestLedger& ledger,
                       const Clock& clock)
    : options_(std::move(options)),
      keys_(options_.key_digests, options_.keys_required),
      backend_(backend),
      ledger_(ledger),
      clock_(clock),
      server_info_(backend, ledger, clock, options_.fingerprint),
      admission_(options_.answers_max) {}

std::optional<http::HttpReply> ApiHandler::refuse(const http::HttpRequest& head) {
  const Call call(head, clock_.now());
  std::optional<http::HttpReply> reply;
  if (!call.route.match) {
    reply = call.error(call.route.match.error());
  } else if (!call.route.match->is_public) {
    reply = refuse_stranger(call);
    if (!reply) reply = refuse_key(call);
  }
  if (reply) ledger_.count_reply(call.endpoint(), reply->status);
  return reply;
}

// Where a key is asked for, a strange page has none to send.
std::optional<http::HttpReply> ApiHandler::refuse_stranger(const Call& call) const {
  if (keys_.required()) return std::nullopt;
  const bool is_strange = http::has_foreign_origin(call.request) ||
                          (options_.this_machine_only && http::has_foreign_host(call.request));
  if (!is_strange) return std::nullopt;
  return call.error({.kind = api::ErrorKind::kForeignOrigin,
                     .message = "This comes from a web page of another server, or asks for another "
                                "server's name; start `salvage up` with --api-key to allow it."});
}

std::optional<http::HttpReply> ApiHandler::refuse_key(const Call& call) const {
  switch (keys_.check(call.request)) {
    case KeyCheck::kGood:
      return std::nullopt;
    case KeyCheck::kMissing:
      return call.error({.kind = api::ErrorKind::kMissingApiKey,
                         .message = "This server wants an API key: send it as "
                                    "\"Authorization: Bearer KEY\"."});
    case KeyCheck::kWrong:
      break;
  }
  return call.error({.kind = api::ErrorKind::kInvalidApiKey,
                     .message = "This API key is not one of this server's."});
}

http::HttpReply ApiHandler::answer(const http::HttpRequest& request, const StopToken& gone) {
  const Call call(request, clock_.now());
  http::HttpReply reply = call.route.match ? dispatch(call, *call.route.match, gone)
                                           : call.error(call.route.match.error());
  ledger_.count_reply(call.endpoint(), reply.status);
  return reply;
}

http::HttpReply ApiHandler::broken(int status, std::string_view target) {
  const api::RouteAnswer route = api::match_route({.method = "GET", .target = target});
  api::ApiError error{.kind = api::ErrorKind::kInvalidValue, .message = "This is no HTTP request."};
  if (status == 404) error = {.kind = api::ErrorKind::kUnknownUrl, .message = "No such URL."};
  if (status == 413) {
    error = {.kind = api::ErrorKind::kRequestTooLarge,
             .message = "The request's body is larger than 32 MiB."};
  }
  if (status == 503) {
    error = {.kind = api::ErrorKind::kNoCapacity,
             .message = "The server is busy reading other requests; try again soon."};
  }
  if (status == 500) error = {.kind = api::ErrorKind::kInternal, .message = "The request failed."};
  api::ErrorAnswer answer = api::render_error(error, route.dress, "");
  http::HttpReply reply{.status = status, .body = std::move(answer.body)};
  reply.headers = std::move(answer.headers);
  ledger_.count_reply(std::nullopt, status);
  return reply;
}

http::HttpReply ApiHandler::dispatch(const Call& call, const api::RouteMatch& match,
                                     const StopToken& gone) {
  switch (match.route) {
    case api::Route::kPage:
      return page(call, match);
    case api::Route::kModels:
    case api::Route::kModel:
      return models(call, match);
    case api::Route::kChatCompletions:
      return generate(call, api::Dialect::kChat, gone);
    case api::Route::kCompletions:
      return generate(call, api::Dialect::kCompletions, gone);
    case api::Route::kResponses:
      return generate(call, api::Dialect::kResponses, gone);
    case api::Route::kMessages:
      return generate(call, api::Dialect::kMessages, gone);
    case api::Route::kLlamaCompletion:
      return generate(call, api::Dialect::kLlama, gone);
    case api::Route::kCountTokens:
      return count_tokens(call, api::Dialect::kMessages);
    case api::Route::kChatInputTokens:
      return count_tokens(call, api::Dialect::kChat);
    case api::Route::kResponsesInputTokens:
      return count_tokens(call, api::Dialect::kResponses);
    case api::Route::kTokenize:
      return tokenize(call);
    case api::Route::kDetokenize:
      return detokenize(call);
    case api::Route::kApplyTemplate:
      return apply_template(call);
    case api::Route::kHealth:
    case api::Route::kProps:
    case api::Route::kSlots:
    case api::Route::kMetrics:
      return info(call, match);
    case api::Route::kRequests:
    case api::Route::kRequest:
    case api::Route::kCluster:
      return administer(call, match);
  }
  return call.error({.kind = api::ErrorKind::kInternal, .message = "This route has no answer."});
}

http::HttpReply ApiHandler::page(const Call& call, const api::RouteMatch& match) {
  auto reply =
      page_reply(*options_.page, {.path = match.argument,
                                  .accept = call.request.header("accept"),
                                  .accept_encoding = call.request.header("accept-encoding"),
                                  .if_none_match = call.request.header("if-none-match")});
  if (reply) return std::move(*reply);
  return call.error(
      {.kind = api::ErrorKind::kUnknownUrl, .message = "The page has no file of this name."});
}

http::HttpReply ApiHandler::info(const Call& call, const api::RouteMatch& match) {
  if (match.route == api::Route::kMetrics) {
    return call.json(server_info_.metrics(), "text/plain; version=0.0.4; charset=utf-8");
  }
  const auto body = match.route == api::Route::kHealth  ? server_info_.health()
                    : match.route == api::Route::kProps ? server_info_.props(call.request.target)
                                                        : server_info_.slots(call.request.target);
  return body ? call.json(*body) : call.error(body.error());
}

// What others ask, and how the cluster does: nobody's business but the owner's.
http::HttpReply ApiHandler::administer(const Call& call, const api::RouteMatch& match) {
  if (!keys_.may_administer(call.request)) {
    return call.error({.kind = api::ErrorKind::kScopeMissing,
                       .message = "This is answered to who sends a key of this server, and "
                                  "without keys on its own machine alone."});
  }
  if (match.route == api::Route::kCluster) return call.json(server_info_.cluster());
  if (match.route == api::Route::kRequests) return call.json(server_info_.requests());
  if (ledger_.cancel(match.argument) == 0) {
    return call.error({.kind = api::ErrorKind::kRequestNotFound,
                       .message = "No request of this id is under way; GET /v1/requests lists "
                                  "those that are."});
  }
  return call.json(api::cancelled_body(match.argument));
}

http::HttpReply ApiHandler::models(const Call& call, const api::RouteMatch& match) {
  const std::vector<api::ModelEntry> models = backend_.models();
  if (match.route == api::Route::kModels) {
    return call.json(api::models_body(models, call.route.dress));
  }
  const auto found = api::find_model(models, match.argument);
  if (!found) return call.error(found.error());
  return call.json(api::model_body(**found, call.route.dress));
}

api::Parsed<api::GenerateRequest> ApiHandler::parse(const Call& call, api::Dialect dialect) {
  return api::parse_request(dialect, call.request.body);
}

metrics::RequestFacts ApiHandler::facts_of(const Call& call) const {
  metrics::RequestFacts facts;
  facts.id = call.id;
  facts.endpoint = call.endpoint().value_or(api::Route::kPage);
  facts.who = keys_.name_of(call.request);
  facts.begun_unix_ms = options_.wall_ms();
  return facts;
}

http::HttpReply ApiHandler::refused(const Call& call, metrics::RequestFacts facts,
                                    const api::ApiError& error) {
  log_request(
      ledger_.refuse(std::move(facts), api::facts_of(error.kind).code, call.begun, clock_.now()));
  return call.error(error);
}

http::HttpReply ApiHandler::generate(const Call& call, api::Dialect dialect,
                                     const StopToken& gone) {
  metrics::RequestFacts facts = facts_of(call);
  auto request = parse(call, dialect);
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
  auto entered = admission_.enter(facts.answers);
  if (!entered) {
    return refused(
        call, std::move(facts),
        {.kind = api::ErrorKind::kQueueFull,
         .message = fmt::format("{} answers are under way or waiting, and no more may wait; try "
                                "again later.",
                                admission_.live())});
  }
  auto ticket = std::make_shared<Admission::Ticket>(std::move(*entered));
  if (auto begun = (*answer)->begin(std::move(ticket)); !begun) {
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

api::AnswerInfo ApiHandler::info_of(const Call& call, const api::GenerateRequest& request,
                                    const ReadyModel& model, const GeneratedAnswer& answer) const {
  api::AnswerInfo info = api::answer_info(request);
  info.unique = random_hex(12).value_or("0");
  info.created_s = options_.wall_ms() / 1000;
  info.model = model.name;
  info.fingerprint = options_.fingerprint;
  info.request_id = call.id;
  if (info.wants_prompts()) info.prompts = answer.prompt_texts();
  return info;
}

http::HttpReply ApiHandler::stream(api::AnswerInfo info, std::shared_ptr<Making> making) const {
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
std::string ApiHandler::next_frames(api::AnswerStream& stream, Making& making) const {
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

http::HttpReply ApiHandler::whole(const Call& call, api::AnswerInfo info, Making& making,
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

http::HttpReply ApiHandler::count_tokens(const Call& call, api::Dialect dialect) {
  const auto request = parse(call, dialect);
  if (!request) return call.error(request.error());
  const auto model = ready_model(backend_, request->model);
  if (!model) return call.error(model.error());
  const auto answer = GeneratedAnswer::prepare(*request, *model, clock_);
  if (!answer) return call.error(answer.error());
  const std::uint32_t tokens = (*answer)->prompt_tokens();
  return call.json(dialect == api::Dialect::kMessages ? api::count_tokens_body(tokens)
                                                      : api::input_tokens_body(tokens));
}

http::HttpReply ApiHandler::tokenize(const Call& call) {
  const auto wish = api::parse_tokenize(call.request.body);
  if (!wish) return call.error(wish.error());
  const auto model = ready_model(backend_, "");
  if (!model) return call.error(model.error());
  const auto tokens = tokens_of(wish->content, wish->add_special, wish->parse_special, *model);
  if (!tokens) return call.error(tokens.error());
  if (!wish->with_pieces) return call.json(api::tokens_body(*tokens));
  std::vector<api::TokenPiece> pieces;
  for (const TokenId id : *tokens) {
    pieces.push_back({id, model->pipeline->text().vocabulary->piece(id, true)});
  }
  return call.json(api::pieces_body(pieces));
}

http::HttpReply ApiHandler::detokenize(const Call& call) {
  const auto tokens = api::parse_detokenize(call.request.body);
  if (!tokens) return call.error(tokens.error());
  const auto model = ready_model(backend_, "");
  if (!model) return call.error(model.error());
  std::string text;
  for (const TokenId id : *tokens) text += model->pipeline->text().vocabulary->piece(id, true);
  return call.json(api::content_body(text));
}

http::HttpReply ApiHandler::apply_template(const Call& call) {
  const auto request = parse(call, api::Dialect::kChat);
  if (!request) return call.error(request.error());
  const auto model = ready_model(backend_, request->model);
  if (!model) return call.error(model.error());
  const auto prompts = prepare_prompts(*request, *model);
  if (!prompts) return call.error(prompts.error());
  return call.json(api::template_body(prompts->front().text));
}

}  // namespace salvage::gateway
