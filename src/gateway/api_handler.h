#pragma once

// The API's requests, answered: route and key first, then what only this server knows, then the
// pipeline. What clients say and are told is api/'s; where bytes come from and go is HttpService's.
//
// Thread rule: HttpHandler's, any number of calls at once. Everything passed in outlives it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/routes.h"
#include "base/clock.h"
#include "gateway/answer_endpoints.h"
#include "gateway/api_call.h"
#include "gateway/api_keys.h"
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
  std::optional<http::HttpReply> refuse_stranger(const ApiCall& call) const;
  std::optional<http::HttpReply> refuse_key(const ApiCall& call) const;
  http::HttpReply dispatch(const ApiCall& call, const api::RouteMatch& match,
                           const StopToken& gone);
  http::HttpReply page(const ApiCall& call, const api::RouteMatch& match);
  http::HttpReply info(const ApiCall& call, const api::RouteMatch& match);
  http::HttpReply administer(const ApiCall& call, const api::RouteMatch& match);
  http::HttpReply models(const ApiCall& call, const api::RouteMatch& match);
  http::HttpReply count_tokens(const ApiCall& call, api::Dialect dialect);
  http::HttpReply tokenize(const ApiCall& call);
  http::HttpReply detokenize(const ApiCall& call);
  http::HttpReply apply_template(const ApiCall& call);

  const ApiOptions options_;
  const ApiKeys keys_;
  ServingBackend& backend_;
  metrics::RequestLedger& ledger_;
  const Clock& clock_;
  const ServerInfo server_info_;
  AnswerEndpoints answers_;
};

}  // namespace salvage::gateway
