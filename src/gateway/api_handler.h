#pragma once

// The API's requests, answered: route and key first, then what only this server knows, then the
// pipeline. What clients say and are told is api/'s; where bytes come from and go is HttpService's.
//
// A streamed answer begins at once, once all cheap checks are passed: from then on something is
// written every `ping_time`, so that no proxy and no client takes a slow machine for a dead one.
//
// Thread rule: HttpHandler's, any number of calls at once. Everything passed in outlives it.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/answer.h"
#include "api/answer_info.h"
#include "api/generate_request.h"
#include "api/routes.h"
#include "base/clock.h"
#include "gateway/admission.h"
#include "gateway/answer_watch.h"
#include "gateway/api_keys.h"
#include "gateway/generate_answer.h"
#include "gateway/page.h"
#include "gateway/server_info.h"
#include "gateway/serving_backend.h"
#include "http/http_service.h"
#include "metrics/request_ledger.h"

namespace salvage::gateway {

struct ApiOptions {
  std::vector<std::string> key_digests;
  bool keys_required = false;
  bool this_machine_only = true;  // it listens on loopback
  std::size_t answers_max = 256;  // under way and waiting, on all models together
  Duration ping_time = std::chrono::seconds(10);
  std::string fingerprint;                // of the engine's build
  std::function<std::int64_t()> wall_ms;  // Unix time, for "created"
  const Page* page = &built_in_page();    // outlives the handler
};

class ApiHandler final : public http::HttpHandler {
 public:
  ApiHandler(ApiOptions options, ServingBackend& backend, metrics::RequestLedger& ledger,
             const Clock& clock);

  std::optional<http::HttpReply> refuse(const http::HttpRequest& head) override;
  http::HttpReply answer(const http::HttpRequest& request, const StopToken& gone) override;
  http::HttpReply broken(int status, std::string_view target) override;

 private:
  struct Call;  // one request, its id, and how its errors are dressed

  std::optional<http::HttpReply> refuse_stranger(const Call& call) const;
  std::optional<http::HttpReply> refuse_key(const Call& call) const;
  http::HttpReply dispatch(const Call& call, const api::RouteMatch& match, const StopToken& gone);
  http::HttpReply page(const Call& call, const api::RouteMatch& match);
  http::HttpReply info(const Call& call, const api::RouteMatch& match);
  http::HttpReply administer(const Call& call, const api::RouteMatch& match);
  http::HttpReply models(const Call& call, const api::RouteMatch& match);
  metrics::RequestFacts facts_of(const Call& call) const;
  http::HttpReply refused(const Call& call, metrics::RequestFacts facts,
                          const api::ApiError& error);
  http::HttpReply generate(const Call& call, api::Dialect dialect, const StopToken& gone);
  http::HttpReply count_tokens(const Call& call, api::Dialect dialect);
  http::HttpReply tokenize(const Call& call);
  http::HttpReply detokenize(const Call& call);
  http::HttpReply apply_template(const Call& call);
  api::Parsed<api::GenerateRequest> parse(const Call& call, api::Dialect dialect);
  api::AnswerInfo info_of(const Call& call, const api::GenerateRequest& request,
                          const ReadyModel& model, const GeneratedAnswer& answer) const;
  // What is held as long as an answer is made; shared, for it outlives the call that began it.
  struct Making;
  http::HttpReply stream(api::AnswerInfo info, std::shared_ptr<Making> making) const;
  std::string next_frames(api::AnswerStream& stream, Making& making) const;
  http::HttpReply whole(const Call& call, api::AnswerInfo info, Making& making,
                        const StopToken& gone) const;

  const ApiOptions options_;
  const ApiKeys keys_;
  ServingBackend& backend_;
  metrics::RequestLedger& ledger_;
  const Clock& clock_;
  const ServerInfo server_info_;
  Admission admission_;
};

}  // namespace salvage::gateway
