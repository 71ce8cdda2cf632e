#include "gateway/answer_watch.h"

#include <cmath>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"

namespace salvage::gateway {
namespace {

constexpr Logger kLog("gateway");

std::int64_t whole_ms(double ms) {
  return static_cast<std::int64_t>(std::llround(ms));
}

}  // namespace

void log_request(const metrics::RequestRecord& record) {
  if (!kLog.enabled(LogLevel::kDebug)) return;
  const metrics::RequestFacts& facts = record.facts;
  kLog.debug("request", {{"req", facts.id},
                         {"endpoint", facts.asked()},
                         {"model", facts.model},
                         {"state", cluster::request_state_name(record.state)},
                         {"finish", record.finish},
                         {"error", record.error},
                         {"queue_ms", whole_ms(record.queue_ms)},
                         {"prefill_ms", whole_ms(record.prefill_ms)},
                         {"decode_ms", whole_ms(record.decode_ms)},
                         {"total_ms", whole_ms(record.total_ms)},
                         {"prompt_tokens", facts.prompt_tokens},
                         {"cached_tokens", record.cached_tokens},
                         {"answer_tokens", record.answer_tokens},
                         {"stages", fmt::format("{}", fmt::join(facts.machines, ","))},
                         {"who", facts.who}});
}

AnswerWatch::~AnswerWatch() {
  if (closed_) return;
  error_ = api::facts_of(api::ErrorKind::kClientClosed).code;
  close();
}

void AnswerWatch::take(const api::AnswerEvent& event) {
  live_->take(event, clock_.now());
  if (const auto* failed = std::get_if<api::Failed>(&event)) {
    error_ = api::facts_of(failed->error.kind).code;
  }
}

void AnswerWatch::close() {
  closed_ = true;
  log_request(ledger_.end(live_, error_, clock_.now()));
}

}  // namespace salvage::gateway
