#include "gateway/api_handler.h"

#include <utility>

#include "api/anthropic/messages_answer.h"
#include "api/llama/text_requests.h"
#include "api/openai/responses_answer.h"
#include "api/server_bodies.h"
#include "gateway/generate_answer.h"
#include "gateway/prompt_tokens.h"
#include "http/web_origin.h"

namespace salvage::gateway {

ApiHandler::ApiHandler(ApiOptions options, ServingBackend& backend, metrics::RequestLedger& ledger,
                       const Clock& clock)
    : options_(std::move(options)),
      keys_(options_.key_digests, options_.keys_required),
      backend_(backend),
      ledger_(ledger),
      clock_(clock),
      server_info_(backend, ledger, clock, options_.fingerprint),
      answers_({.answers_max = options_.answers_max,
                .ping_time = options_.ping_time,
                .fingerprint = options_.fingerprint,
                .wall_ms = options_.wall_ms},
               backend, ledger, keys_, clock) {}

std::optional<http::HttpReply> ApiHandler::refuse(const http::HttpRequest& head) {
  const ApiCall call(head, clock_.now());
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
std::optional<http::HttpReply> ApiHandler::refuse_stranger(const ApiCall& call) const {
  if (keys_.required()) return std::nullopt;
  const bool is_strange = http::has_foreign_origin(call.request) ||
                          (options_.this_machine_only && http::has_foreign_host(call.request));
  if (!is_strange) return std::nullopt;
  return call.error({.kind = api::ErrorKind::kForeignOrigin,
                     .message = "This comes from a web page of another server, or asks for another "
                                "server's name; start `salvage up` with --api-key to allow it."});
}

std::optional<http::HttpReply> ApiHandler::refuse_key(const ApiCall& call) const {
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
  const ApiCall call(request, clock_.now());
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

http::HttpReply ApiHandler::dispatch(const ApiCall& call, const api::RouteMatch& match,
                                     const StopToken& gone) {
  switch (match.route) {
    case api::Route::kPage:
      return page(call, match);
    case api::Route::kModels:
    case api::Route::kModel:
      return models(call, match);
    case api::Route::kChatCompletions:
      return answers_.reply(call, api::Dialect::kChat, gone);
    case api::Route::kCompletions:
      return answers_.reply(call, api::Dialect::kCompletions, gone);
    case api::Route::kResponses:
      return answers_.reply(call, api::Dialect::kResponses, gone);
    case api::Route::kMessages:
      return answers_.reply(call, api::Dialect::kMessages, gone);
    case api::Route::kLlamaCompletion:
      return answers_.reply(call, api::Dialect::kLlama, gone);
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

http::HttpReply ApiHandler::page(const ApiCall& call, const api::RouteMatch& match) {
  auto reply =
      page_reply(*options_.page, {.path = match.argument,
                                  .accept = call.request.header("accept"),
                                  .accept_encoding = call.request.header("accept-encoding"),
                                  .if_none_match = call.request.header("if-none-match")});
  if (reply) return std::move(*reply);
  return call.error(
      {.kind = api::ErrorKind::kUnknownUrl, .message = "The page has no file of this name."});
}

http::HttpReply ApiHandler::info(const ApiCall& call, const api::RouteMatch& match) {
  if (match.route == api::Route::kMetrics) {
    return call.json(server_info_.metrics(), "text/plain; version=0.0.4; charset=utf-8");
  }
  const auto body = match.route == api::Route::kHealth  ? server_info_.health()
                    : match.route == api::Route::kProps ? server_info_.props(call.request.target)
                                                        : server_info_.slots(call.request.target);
  return body ? call.json(*body) : call.error(body.error());
}

// What others ask, and how the cluster does: nobody's business but the owner's.
http::HttpReply ApiHandler::administer(const ApiCall& call, const api::RouteMatch& match) {
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

http::HttpReply ApiHandler::models(const ApiCall& call, const api::RouteMatch& match) {
  const std::vector<api::ModelEntry> models = backend_.models();
  if (match.route == api::Route::kModels) {
    return call.json(api::models_body(models, call.route.dress));
  }
  const auto found = api::find_model(models, match.argument);
  if (!found) return call.error(found.error());
  return call.json(api::model_body(**found, call.route.dress));
}

http::HttpReply ApiHandler::count_tokens(const ApiCall& call, api::Dialect dialect) {
  const auto request = api::parse_request(dialect, call.request.body);
  if (!request) return call.error(request.error());
  const auto model = ready_model(backend_, request->model);
  if (!model) return call.error(model.error());
  const auto answer = GeneratedAnswer::prepare(*request, *model, clock_);
  if (!answer) return call.error(answer.error());
  const std::uint32_t tokens = (*answer)->prompt_tokens();
  return call.json(dialect == api::Dialect::kMessages ? api::count_tokens_body(tokens)
                                                      : api::input_tokens_body(tokens));
}

http::HttpReply ApiHandler::tokenize(const ApiCall& call) {
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

http::HttpReply ApiHandler::detokenize(const ApiCall& call) {
  const auto tokens = api::parse_detokenize(call.request.body);
  if (!tokens) return call.error(tokens.error());
  const auto model = ready_model(backend_, "");
  if (!model) return call.error(model.error());
  std::string text;
  for (const TokenId id : *tokens) text += model->pipeline->text().vocabulary->piece(id, true);
  return call.json(api::content_body(text));
}

http::HttpReply ApiHandler::apply_template(const ApiCall& call) {
  const auto request = api::parse_request(api::Dialect::kChat, call.request.body);
  if (!request) return call.error(request.error());
  const auto model = ready_model(backend_, request->model);
  if (!model) return call.error(model.error());
  const auto prompts = prepare_prompts(*request, *model);
  if (!prompts) return call.error(prompts.error());
  return call.json(api::template_body(prompts->front().text));
}

}  // namespace salvage::gateway
