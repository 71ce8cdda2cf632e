#include "metrics/request_ledger.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace salvage::metrics {
namespace {

using cluster::RequestState;

constexpr auto kRelaxed = std::memory_order_relaxed;

std::string_view finish_name(api::StopReason reason) {
  switch (reason) {
    case api::StopReason::kEndToken:
    case api::StopReason::kStopText:
      return "stop";
    case api::StopReason::kTokenLimit:
      return "length";
    case api::StopReason::kTimeLimit:
      return "time_limit";
    case api::StopReason::kContextFull:
      return "context_full";
  }
  return "stop";
}

RequestState ended_state(std::string_view error) {
  if (error.empty()) return RequestState::kDone;
  const bool by_wish = error == api::facts_of(api::ErrorKind::kClientClosed).code ||
                       error == api::facts_of(api::ErrorKind::kRequestCancelled).code;
  return by_wish ? RequestState::kCancelled : RequestState::kFailed;
}

double ms_between(std::int64_t begin_us, std::int64_t end_us) {
  return end_us <= begin_us ? 0 : static_cast<double>(end_us - begin_us) / 1000;
}

double per_second(std::uint32_t tokens, double ms) {
  return tokens == 0 || ms <= 0 ? 0 : tokens * 1000.0 / ms;
}

std::uint32_t less(std::uint32_t from, std::uint32_t what) {
  return from - std::min(from, what);
}

}  // namespace

double RequestRecord::prefill_rate() const {
  return per_second(less(read_tokens, cached_tokens), prefill_ms);
}

// The first token is the prompt's: what it took is no part of decode_ms.
double RequestRecord::decode_rate() const {
  return per_second(less(answer_tokens, facts.answers), decode_ms);
}

// --- one that lives ---

LiveRequest::LiveRequest(RequestFacts facts, TimePoint begun)
    : facts_(std::move(facts)), begun_(begun), choices_(std::max(facts_.answers, 1U)) {}

// At least 1, for 0 means "not yet".
std::int64_t LiveRequest::us_since_begun(TimePoint now) const {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now - begun_).count();
  return std::max<std::int64_t>(us, 1);
}

void LiveRequest::take(const api::AnswerEvent& event, TimePoint now) {
  std::visit([&](const auto& it) { handle(it, now); }, event);
}

void LiveRequest::handle(const api::Queued& queued, TimePoint /*now*/) {
  place_.store(queued.place, kRelaxed);
}

void LiveRequest::handle(const api::PromptProgress& progress, TimePoint now) {
  if (progress.choice >= choices_.size()) return;
  place_.store(0, kRelaxed);
  if (reading_us_.load(kRelaxed) == 0) reading_us_.store(us_since_begun(now), kRelaxed);
  choices_[progress.choice] = {progress.total_tokens, progress.done_tokens, progress.cached_tokens};
  sum_up_prompts();
}

// A prompt whose last token alone was missing is read without a word about it.
void LiveRequest::end_of_prompt(Choice& choice) {
  if (choice.read == choice.total) return;
  choice.read = choice.total;
  sum_up_prompts();
}

void LiveRequest::sum_up_prompts() {
  std::uint32_t read = 0;
  std::uint32_t cached = 0;
  for (const Choice& choice : choices_) {
    read += choice.read;
    cached += choice.cached;
  }
  read_tokens_.store(read, kRelaxed);
  cached_tokens_.store(cached, kRelaxed);
}

void LiveRequest::handle(const api::AnswerDelta& delta, TimePoint now) {
  if (delta.tokens.empty() || delta.choice >= choices_.size()) return;
  end_of_prompt(choices_[delta.choice]);
  const std::int64_t us = us_since_begun(now);
  if (first_token_us_.load(kRelaxed) == 0) first_token_us_.store(us, kRelaxed);
  last_token_us_.store(us, kRelaxed);
  const auto more = static_cast<std::uint32_t>(delta.tokens.size());
  answer_tokens_.store(answer_tokens_.load(kRelaxed) + more, kRelaxed);
}

void LiveRequest::handle(const api::Finished& finished, TimePoint /*now*/) {
  if (finished.choice < choices_.size()) end_of_prompt(choices_[finished.choice]);
  if (finished_count_++ == 0) finish_ = finish_name(finished.reason);
  finished_tokens_ += finished.usage.answer_tokens;
  const api::Timings& timings = finished.timings;
  slowest_.queue_ms = std::max(slowest_.queue_ms, timings.queue_ms);
  slowest_.prompt_ms = std::max(slowest_.prompt_ms, timings.prompt_ms);
  slowest_.answer_ms = std::max(slowest_.answer_ms, timings.answer_ms);
}

RequestRecord LiveRequest::record(TimePoint now) const {
  const std::int64_t now_us = us_since_begun(now);
  const std::int64_t reading = reading_us_.load(kRelaxed);
  const std::int64_t first = first_token_us_.load(kRelaxed);
  RequestRecord record;
  record.facts = facts_;
  record.state = first != 0     ? RequestState::kDecode
                 : reading != 0 ? RequestState::kPrefill
                                : RequestState::kQueued;
  record.queue_place = place_.load(kRelaxed);
  record.read_tokens = read_tokens_.load(kRelaxed);
  record.cached_tokens = cached_tokens_.load(kRelaxed);
  record.answer_tokens = answer_tokens_.load(kRelaxed);
  record.queue_ms = ms_between(0, reading != 0 ? reading : now_us);
  if (reading != 0) record.prefill_ms = ms_between(reading, first != 0 ? first : now_us);
  if (first != 0) record.decode_ms = ms_between(first, last_token_us_.load(kRelaxed));
  record.total_ms = ms_between(0, now_us);
  return record;
}

// What the pipeline measured is better than what we saw of it, but comes only at a good end.
RequestRecord LiveRequest::ended(std::string_view error, TimePoint now) const {
  RequestRecord record = this->record(now);
  record.state = ended_state(error);
  record.queue_place = 0;
  record.error = error;
  if (error.empty()) record.finish = finish_;
  if (finished_count_ < facts_.answers || finished_count_ == 0) return record;
  record.answer_tokens = std::max(record.answer_tokens, finished_tokens_);
  record.queue_ms = slowest_.queue_ms;
  record.prefill_ms = slowest_.prompt_ms;
  record.decode_ms = slowest_.answer_ms;
  return record;
}

// --- all of them ---

std::shared_ptr<LiveRequest> RequestLedger::begin(RequestFacts facts, TimePoint begun) {
  auto request = std::make_shared<LiveRequest>(std::move(facts), begun);
  MutexLock lock(mutex_);
  live_.push_back(request);
  return request;
}

RequestRecord RequestLedger::end(const std::shared_ptr<LiveRequest>& request,
                                 std::string_view error, TimePoint now) {
  const RequestRecord record = request->ended(error, now);
  MutexLock lock(mutex_);
  std::erase(live_, request);
  remember(record);
  sum_up(record);
  return record;
}

RequestRecord RequestLedger::refuse(RequestFacts facts, std::string_view error, TimePoint begun,
                                    TimePoint now) {
  const RequestRecord record = LiveRequest(std::move(facts), begun).ended(error, now);
  MutexLock lock(mutex_);
  remember(record);
  ++(record.state == RequestState::kCancelled ? totals_.requests_cancelled
                                              : totals_.requests_failed);
  return record;
}

void RequestLedger::remember(const RequestRecord& record) {
  finished_.push_front(record);
  if (finished_.size() > kFinishedMax) finished_.pop_back();
}

void RequestLedger::sum_up(const RequestRecord& record) {
  ++(record.state == RequestState::kDone        ? totals_.requests_done
     : record.state == RequestState::kCancelled ? totals_.requests_cancelled
                                                : totals_.requests_failed);
  const std::uint32_t computed = less(record.read_tokens, record.cached_tokens);
  totals_.prompt_tokens += computed;
  totals_.ended_prompt_tokens += computed;
  totals_.ended_answer_tokens += less(record.answer_tokens, record.facts.answers);
  totals_.cached_tokens += record.cached_tokens;
  totals_.answer_tokens += record.answer_tokens;
  totals_.prompt_seconds += record.prefill_ms / 1000;
  totals_.answer_seconds += record.decode_ms / 1000;
  totals_.longest_tokens =
      std::max(totals_.longest_tokens, record.read_tokens + record.answer_tokens);
  if (record.read_tokens > 0) totals_.queue.add(record.queue_ms / 1000);
  if (record.answer_tokens == 0) return;
  totals_.ttft.add((record.queue_ms + record.prefill_ms) / 1000);
  if (record.decode_rate() > 0) totals_.tpot.add(1 / record.decode_rate());
}

void RequestLedger::count_reply(std::optional<api::Route> route, int status) {
  const auto known = std::find(kCountedStatuses.begin(), kCountedStatuses.end(), status);
  const std::size_t row = route ? static_cast<std::size_t>(*route) : api::kRouteCount;
  MutexLock lock(mutex_);
  ++totals_.replies[row][static_cast<std::size_t>(known - kCountedStatuses.begin())];
}

std::vector<RequestRecord> RequestLedger::records(TimePoint now) const {
  MutexLock lock(mutex_);
  std::vector<RequestRecord> records;
  for (const auto& request : live_) records.push_back(request->record(now));
  records.insert(records.end(), finished_.begin(), finished_.end());
  return records;
}

Result<std::string> RequestLedger::find_live(std::string_view beginning) const {
  std::set<std::string_view> found;
  MutexLock lock(mutex_);
  for (const auto& request : live_) {
    if (request->facts_.id == beginning) return request->facts_.id;
    if (request->facts_.id.starts_with(beginning)) found.insert(request->facts_.id);
  }
  if (found.size() == 1) return std::string(*found.begin());
  if (!found.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} requests under way have an id that begins with {}: {} and {} among "
                            "them; give more of it",
                            found.size(), beginning, *found.begin(), *found.rbegin()));
  }
  const auto over = std::find_if(finished_.begin(), finished_.end(), [&](const auto& record) {
    return record.facts.id.starts_with(beginning);
  });
  if (over == finished_.end()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("no request's id begins with {}; `salvage top` shows those under way",
                            beginning));
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("the request {} has ended already ({})", over->facts.id,
                          over->error.empty() ? over->finish : over->error));
}

std::size_t RequestLedger::cancel(std::string_view id) {
  std::vector<std::shared_ptr<LiveRequest>> chosen;
  {
    MutexLock lock(mutex_);
    for (const auto& request : live_) {
      if (request->facts_.id == id) chosen.push_back(request);
    }
  }
  // Whoever answers hears of it here, and may be at its end meanwhile.
  for (const auto& request : chosen) request->cancel_.request_stop();
  return chosen.size();
}

// Only what can't become less when a live request ends: a counter of Prometheus never falls.
LedgerTotals RequestLedger::totals(TimePoint now) const {
  MutexLock lock(mutex_);
  LedgerTotals totals = totals_;
  for (const auto& request : live_) {
    const RequestRecord record = request->record(now);
    totals.prompt_tokens += less(record.read_tokens, record.cached_tokens);
    totals.cached_tokens += record.cached_tokens;
    totals.answer_tokens += record.answer_tokens;
    totals.queued += record.state == RequestState::kQueued ? 1 : 0;
    totals.prefilling += record.state == RequestState::kPrefill ? 1 : 0;
    totals.decoding += record.state == RequestState::kDecode ? 1 : 0;
  }
  return totals;
}

}  // namespace salvage::metrics
