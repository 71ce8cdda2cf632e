#pragma once

// Follows one answer for the ledger and the log: told of its events, it knows how far it is and
// says so at its end, which comes by itself with the object: then the client has gone. One thread,
// the one that answers. The ledger and the clock outlive it.

#include <memory>
#include <string>
#include <string_view>

#include "api/events.h"
#include "base/clock.h"
#include "base/stop.h"
#include "metrics/request_ledger.h"

namespace salvage::gateway {

class AnswerWatch {
 public:
  AnswerWatch(metrics::RequestLedger& ledger, const Clock& clock, metrics::RequestFacts facts,
              TimePoint begun)
      : ledger_(ledger), clock_(clock), live_(ledger.begin(std::move(facts), begun)) {}
  ~AnswerWatch();
  AnswerWatch(const AnswerWatch&) = delete;
  AnswerWatch& operator=(const AnswerWatch&) = delete;

  void take(const api::AnswerEvent& event);
  // Somebody ended it; the client is told so.
  StopToken cancel_token() const { return live_->cancel_token(); }
  // All of it has been said.
  void close();

 private:
  metrics::RequestLedger& ledger_;
  const Clock& clock_;
  const std::shared_ptr<metrics::LiveRequest> live_;  // shared with the ledger
  std::string error_;
  bool closed_ = false;
};

// One line a request, with its figures and nothing of its text.
void log_request(const metrics::RequestRecord& record);

}  // namespace salvage::gateway
