#pragma once

// What the server tells of itself: llama.cpp's /health, /props and /slots, Prometheus' /metrics,
// and the lists for the owner. Nothing here has a word of a prompt in it.
//
// Threads: any, at once; calls wait for the coordinator as ServingBackend's do. What is passed in
// outlives it.

#include <string>
#include <string_view>

#include "api/errors.h"
#include "base/clock.h"
#include "gateway/serving_backend.h"
#include "metrics/request_ledger.h"

namespace salvage::gateway {

class ServerInfo {
 public:
  // `build`: of the engine, as /props tells it.
  ServerInfo(ServingBackend& backend, const metrics::RequestLedger& ledger, const Clock& clock,
             std::string build)
      : backend_(backend), ledger_(ledger), clock_(clock), build_(std::move(build)) {}

  // Bodies of JSON. `target` is the request's path and query: ?model=NAME, ?fail_on_no_slot=1.
  api::Parsed<std::string> health() const;
  api::Parsed<std::string> props(std::string_view target) const;
  api::Parsed<std::string> slots(std::string_view target) const;
  std::string requests() const;
  std::string cluster() const;
  std::string metrics() const;  // Prometheus' text

 private:
  ServingBackend& backend_;
  const metrics::RequestLedger& ledger_;
  const Clock& clock_;
  const std::string build_;
};

// The model that a client means, ready to answer, or what to tell the client.
api::Parsed<ReadyModel> ready_model(ServingBackend& backend, const std::string& name);

}  // namespace salvage::gateway
