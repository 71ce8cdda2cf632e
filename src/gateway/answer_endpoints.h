#pragma once

// The endpoints that make answers, in every dialect: a place in the line, the work for the
// pipeline, a stream of events or one JSON, and what the ledger hears of it.
//
// A streamed answer begins at once, once all cheap checks are passed: from then on something is
// written every `ping_time`, so that no proxy and no client takes a slow machine for a dead one.
//
// Threads: reply() from any; it blocks until a whole answer is there. A stream goes on after it, on
// the thread that writes the body, and holds what it needs. The object outlives both.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/answer.h"
#include "api/generate_request.h"
#include "base/clock.h"
#include "gateway/admission.h"
#include "gateway/api_call.h"
#include "gateway/api_keys.h"
#include "gateway/generate_answer.h"
#include "gateway/serving_backend.h"
#include "metrics/request_ledger.h"

namespace salvage::gateway {

struct AnswerOptions {
  std::size_t answers_max = 0;            // under way and waiting
  Duration ping_time{};                   // of silence in a stream; 0: no pings
  std::string fingerprint;                // of this build, "system_fingerprint"
  std::function<std::int64_t()> wall_ms;  // Unix time, for "created"
};

class AnswerEndpoints {
 public:
  // All references outlive the object.
  AnswerEndpoints(AnswerOptions options, ServingBackend& backend, metrics::RequestLedger& ledger,
                  const ApiKeys& keys, const Clock& clock);

  http::HttpReply reply(const ApiCall& call, api::Dialect dialect, const StopToken& gone);

 private:
  // What is held as long as an answer is made; shared, for it outlives the call that began it.
  struct Making;

  metrics::RequestFacts facts_of(const ApiCall& call) const;
  http::HttpReply refused(const ApiCall& call, metrics::RequestFacts facts,
                          const api::ApiError& error);
  api::Parsed<void> begin(GeneratedAnswer& answer, std::uint32_t choices);
  api::AnswerInfo info_of(const ApiCall& call, const api::GenerateRequest& request,
                          const ReadyModel& model, const GeneratedAnswer& answer) const;
  http::HttpReply stream(api::AnswerInfo info, std::shared_ptr<Making> making) const;
  std::string next_frames(api::AnswerStream& stream, Making& making) const;
  http::HttpReply whole(const ApiCall& call, api::AnswerInfo info, Making& making,
                        const StopToken& gone) const;

  const AnswerOptions options_;
  ServingBackend& backend_;
  metrics::RequestLedger& ledger_;
  const ApiKeys& keys_;
  const Clock& clock_;
  Admission admission_;
};

}  // namespace salvage::gateway
