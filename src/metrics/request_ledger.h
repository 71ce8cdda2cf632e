#pragma once

// What this server is asked, now and lately, in figures: who waits, who is read or answered and how
// fast, and sums of all that for metrics. Never a word of a prompt or an answer. Lists and sums are
// bounded whatever clients do: the last kFinishedMax requests are remembered, and counters exist
// for fixed endpoints and statuses alone. No clock inside, times are passed in.
//
// Threads: the ledger's calls from any. A LiveRequest is fed by the one thread that answers it, by
// atomic stores, so that a token costs no lock; anybody may look and cancel.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/events.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/stop.h"
#include "cluster/request_life.h"
#include "metrics/histogram.h"

namespace salvage::metrics {

inline constexpr std::size_t kFinishedMax = 256;
// Statuses that are counted by themselves; all others together.
inline constexpr std::array kCountedStatuses = {200, 400, 401, 403, 404, 405, 413, 429,
                                                431, 499, 500, 501, 502, 503, 504, 529};

struct RequestFacts {
  std::string id;  // the client's x-request-id, or ours
  api::Route endpoint = api::Route::kPage;
  std::string command;  // instead: "salvage run"
  std::string model;
  std::string who;  // the key's name; empty: nobody had to show one
  bool stream = false;
  std::uint32_t answers = 1;
  std::uint32_t prompt_tokens = 0;    // a prompt counts once for each of its answers
  std::vector<std::string> machines;  // of the stages, in order
  std::int64_t begun_unix_ms = 0;

  std::string_view asked() const {
    return command.empty() ? api::route_name(endpoint) : std::string_view(command);
  }
};

// One request, as far as it is.
struct RequestRecord {
  RequestFacts facts;
  cluster::RequestState state = cluster::RequestState::kQueued;
  std::uint32_t queue_place = 0;    // 1: next; 0: waits for nobody
  std::uint32_t read_tokens = 0;    // of the prompt, cached ones among them
  std::uint32_t cached_tokens = 0;  // of these
  std::uint32_t answer_tokens = 0;
  double queue_ms = 0;  // until it had a sequence
  double prefill_ms = 0;
  double decode_ms = 0;  // from the first token to the last
  double total_ms = 0;
  std::string finish;  // "stop", "length", "context_full", "time_limit"; empty while it lives
  std::string error;   // a code of api/errors.h; empty unless it failed

  bool over() const { return state >= cluster::RequestState::kDone; }
  // Tokens a second; 0: not known yet.
  double prefill_rate() const;
  double decode_rate() const;
};

// A request's beginning was accepted; fed until it ends.
class LiveRequest {
 public:
  LiveRequest(RequestFacts facts, TimePoint begun);

  // --- the thread that answers ---
  void take(const api::AnswerEvent& event, TimePoint now);
  // Stops once somebody wants it to end. Any thread.
  StopToken cancel_token() const { return cancel_.get_token(); }

 private:
  friend class RequestLedger;
  void handle(const api::Accepted& /*accepted*/, TimePoint /*now*/) {}
  void handle(const api::Queued& queued, TimePoint now);
  void handle(const api::PromptProgress& progress, TimePoint now);
  void handle(const api::EchoedPrompt& /*echoed*/, TimePoint /*now*/) {}
  void handle(const api::AnswerDelta& delta, TimePoint now);
  void handle(const api::Finished& finished, TimePoint now);
  void handle(const api::Failed& /*failed*/, TimePoint /*now*/) {}
  RequestRecord record(TimePoint now) const;
  RequestRecord ended(std::string_view error, TimePoint now) const;
  std::int64_t us_since_begun(TimePoint now) const;

  using Number = std::atomic<std::uint32_t>;
  using Time = std::atomic<std::int64_t>;  // microseconds since it began; 0: not yet
  const RequestFacts facts_;
  const TimePoint begun_;
  Number place_ = 0;
  Number read_tokens_ = 0;
  Number cached_tokens_ = 0;
  Number answer_tokens_ = 0;
  Time reading_us_ = 0;
  Time first_token_us_ = 0;
  Time last_token_us_ = 0;
  StopSource cancel_;
  // The answering thread's.
  struct Choice {
    std::uint32_t total = 0;
    std::uint32_t read = 0;
    std::uint32_t cached = 0;
  };
  void end_of_prompt(Choice& choice);
  void sum_up_prompts();
  std::vector<Choice> choices_;
  std::uint32_t finished_count_ = 0;
  std::uint32_t finished_tokens_ = 0;  // of their answers, with the token that ended each
  api::Timings slowest_;               // of those that finished, each figure the longest
  std::string finish_;                 // why the first one did
};

// Sums since the start, for metrics. Tokens of live requests are among them.
struct LedgerTotals {
  // By endpoint, what belongs to none last; by kCountedStatuses, other ones last.
  std::array<std::array<std::uint64_t, kCountedStatuses.size() + 1>, api::kRouteCount + 1>
      replies{};
  std::uint64_t requests_done = 0;
  std::uint64_t requests_failed = 0;
  std::uint64_t requests_cancelled = 0;
  std::uint64_t prompt_tokens = 0;  // that were computed
  std::uint64_t cached_tokens = 0;
  std::uint64_t answer_tokens = 0;
  // Of requests that have ended: only then is it known what they took.
  std::uint64_t ended_prompt_tokens = 0;
  std::uint64_t ended_answer_tokens = 0;
  double prompt_seconds = 0;
  double answer_seconds = 0;
  std::uint32_t longest_tokens = 0;  // prompt and answer
  std::uint32_t queued = 0;          // now
  std::uint32_t prefilling = 0;
  std::uint32_t decoding = 0;
  Histogram ttft{kWaitBounds};
  Histogram tpot{kTokenBounds};
  Histogram queue{kWaitBounds};
};

class RequestLedger {
 public:
  RequestLedger() = default;

  std::shared_ptr<LiveRequest> begin(RequestFacts facts, TimePoint begun);
  // Once. `error`: a code of api/errors.h, empty if it finished in order. Its last state.
  RequestRecord end(const std::shared_ptr<LiveRequest>& request, std::string_view error,
                    TimePoint now);
  // One that was never begun, with its error's code.
  RequestRecord refuse(RequestFacts facts, std::string_view error, TimePoint begun, TimePoint now);
  // An answer of HTTP was begun with this status, or refused.
  void count_reply(std::optional<api::Route> route, int status);

  // Live ones, oldest first; then those that ended, last one first.
  std::vector<RequestRecord> records(TimePoint now) const;
  // The id of the live request whose id this is or, of one alone, how it begins. `not_found`;
  // `invalid_argument` if several begin so.
  Result<std::string> find_live(std::string_view beginning) const;
  // How many of this id are being ended; each ends within a step.
  std::size_t cancel(std::string_view id);
  LedgerTotals totals(TimePoint now) const;

 private:
  void remember(const RequestRecord& record) REQUIRES(mutex_);
  void sum_up(const RequestRecord& record) REQUIRES(mutex_);

  mutable Mutex mutex_;
  // Shared with the threads that answer.
  std::vector<std::shared_ptr<LiveRequest>> live_ GUARDED_BY(mutex_);
  std::deque<RequestRecord> finished_ GUARDED_BY(mutex_);  // the last one in front
  LedgerTotals totals_ GUARDED_BY(mutex_);
};

}  // namespace salvage::metrics
