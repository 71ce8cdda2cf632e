#include "pipeline/scheduler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "pipeline/chunking.h"

namespace salvage::pipeline {
namespace {

// A prompt of unknown form is likely to come again with another end.
constexpr std::uint32_t kEndTokens = 4;
// Tokens that are worth a step of their own for not being read again: it costs as much as some more
// rows in the step before would.
constexpr std::uint32_t kCheckpointTokensMin = 16;

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(limits),
      cache_({.lane_count = limits.sequence_count,
              .context_per_sequence = limits.context_per_sequence,
              .can_trim = limits.can_trim,
              .checkpoint_count = limits.reuse_prefix ? limits.checkpoint_count : 0}) {
  CHECK(limits.stage_count > 0 && limits.sequence_count > 0 && limits.rows_max > 0);
  CHECK(limits.logit_rows_max > 0 && limits.in_flight_max > 0);
}

Result<void> Scheduler::submit(Submission submission) {
  const std::size_t count = submission.prompt.size();
  if (count == 0) return fail(ErrorCode::kInvalidArgument, "the prompt has no tokens");
  if (count > limits_.context_per_sequence) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the prompt has {} tokens, the context holds {}; shorten the prompt or "
                            "raise --ctx",
                            count, limits_.context_per_sequence));
  }
  if (requests_.contains(submission.request)) {
    return fail(ErrorCode::kInvalidArgument, "the request id is in use");
  }
  Request request;
  request.tokens = std::move(submission.prompt);
  request.prompt_count = static_cast<std::uint32_t>(count);
  request.logits_for_prompt = submission.logits_for_prompt;
  request.priority = submission.priority;
  request.reuse_prefix = submission.reuse_prefix;
  const bool known = submission.turn > 0 && submission.turn < count;
  request.turn =
      known ? submission.turn : request.prompt_count - std::min(kEndTokens, request.prompt_count);
  requests_.emplace(submission.request, std::move(request));
  queue_.push_back(submission.request);
  ++line_version_;
  return {};
}

std::optional<PlannedStep> Scheduler::next() {
  if (in_flight_.size() >= limits_.in_flight_max) return std::nullopt;
  admit();
  if (auto step = next_decode()) return step;
  return next_chunk();
}

void Scheduler::admit() {
  while (!queue_.empty()) {
    const auto chosen = next_in_queue();
    Request& request = requests_.at(*chosen);
    const auto start = cache_.choose(request.tokens, keep_max(request));
    if (!start) return;
    // Only who is older was passed over.
    for (auto one = queue_.begin(); one != chosen; ++one) ++requests_.at(*one).passed;
    place(request, *start);
    queue_.erase(chosen);
  }
}

// The oldest that was passed over for too long, else the oldest of the highest priority.
std::deque<RequestId>::iterator Scheduler::next_in_queue() {
  auto best = queue_.begin();
  for (auto one = queue_.begin(); one != queue_.end(); ++one) {
    const Request& request = requests_.at(*one);
    if (request.passed >= kPassedMax) return one;
    if (request.priority > requests_.at(*best).priority) best = one;
  }
  return best;
}

// The last prompt token is always computed, for its logits are wanted; where all prompt rows'
// logits are, nothing may be kept.
std::uint32_t Scheduler::keep_max(const Request& request) const {
  if (!limits_.reuse_prefix || !request.reuse_prefix || request.logits_for_prompt) return 0;
  return static_cast<std::uint32_t>(request.tokens.size()) - 1;
}

void Scheduler::place(Request& request, const PrefixStart& start) {
  ++line_version_;
  for (SentStep& sent : in_flight_) {
    if (sent.lane == start.lane) sent.lane.reset();
  }
  cache_.take(start, request.turn, ops_);
  request.passed = 0;
  request.lane = start.lane;
  request.sent = start.keep;
  request.reused = start.keep;
  plan_checkpoints(request, start);
  std::uint32_t rows_max = limits_.rows_max;
  if (request.logits_for_prompt) rows_max = std::min(rows_max, limits_.logit_rows_max);
  request.chunk_rows = limits_.chunk_rows != 0
                           ? std::min(limits_.chunk_rows, rows_max)
                           : choose_chunk_rows(request.unsent(), limits_.stage_count, rows_max);
}

// Where prompts are known to part, and where this one is likely to be continued differently.
void Scheduler::plan_checkpoints(Request& request, const PrefixStart& start) const {
  request.checkpoints.clear();
  if (!cache_.uses_checkpoints() || request.logits_for_prompt) return;
  std::uint32_t last = cache_.last_checkpoint(start.lane);
  const auto plan = [&](std::uint32_t position) {
    if (position < start.keep || position < last + kCheckpointTokensMin) return;
    request.checkpoints.push_back(position);
    last = position;
  };
  // Of two near each other the earlier serves for both.
  if (start.shared < request.turn) plan(start.shared);
  plan(request.turn);
}

// A chunk ends where a state is to be saved.
std::uint32_t Scheduler::rows_of_chunk(const Request& request) const {
  std::uint32_t rows = std::min(request.chunk_rows, request.unsent());
  for (const std::uint32_t position : request.checkpoints) {
    if (position > request.sent) return std::min(rows, position - request.sent);
  }
  return rows;
}

// Before rows of the request: its sequence holds what was sent so far.
void Scheduler::save_if_wanted(Request& request) {
  bool wanted = false;
  while (!request.checkpoints.empty() && request.checkpoints.front() <= request.sent) {
    wanted = request.checkpoints.front() == request.sent;
    request.checkpoints.pop_front();
  }
  if (wanted) cache_.save(*request.lane, CheckpointKind::kTurn, ops_);
  if (cache_.checkpoint_due(*request.lane)) {
    cache_.save(*request.lane, CheckpointKind::kPeriodic, ops_);
  }
}

std::optional<PlannedStep> Scheduler::next_decode() {
  std::vector<RequestId> ready;
  std::uint32_t decoding = 0;
  for (const auto& [id, request] : requests_) {
    if (!request.lane || !request.decodes()) continue;
    ++decoding;
    if (!request.waiting) ready.push_back(id);
  }
  if (ready.empty() || in_flight_of(true) >= limits_.stage_count) return std::nullopt;
  const std::uint32_t share = (decoding + limits_.stage_count - 1) / limits_.stage_count;
  const std::uint32_t rows = std::min({share, limits_.rows_max, limits_.logit_rows_max});
  if (ready.size() > rows) ready.resize(rows);
  std::sort(ready.begin(), ready.end(), [this](RequestId a, RequestId b) {
    return requests_.at(a).lane < requests_.at(b).lane;  // libllama groups ascending sequences
  });
  PlannedStep step;
  SentStep sent;
  sent.decode = true;
  if (const Request& first = requests_.at(ready.front()); ready.size() == 1) {
    sent.lane = first.lane;
    sent.begin = first.sent;
    sent.end = first.sent + 1;
  }
  for (const RequestId id : ready) {
    save_if_wanted(requests_.at(id));
    add_row(step, sent, id, requests_.at(id));
  }
  return send(std::move(step), std::move(sent));
}

std::optional<PlannedStep> Scheduler::next_chunk() {
  const bool somebody_decodes =
      std::any_of(requests_.begin(), requests_.end(),
                  [](const auto& entry) { return entry.second.lane && entry.second.decodes(); });
  if (somebody_decodes && in_flight_of(false) >= limits_.stage_count) return std::nullopt;
  const std::optional<RequestId> chosen = next_prompt();
  if (!chosen) return std::nullopt;
  Request& request = requests_.at(*chosen);
  PlannedStep step;
  SentStep sent;
  save_if_wanted(request);
  const std::uint32_t rows = rows_of_chunk(request);
  sent.lane = request.lane;
  sent.begin = request.sent;
  sent.end = request.sent + rows;
  for (std::uint32_t row = 0; row < rows; ++row) add_row(step, sent, *chosen, request);
  // After a replay the answer so far is read again, too.
  sent.progress =
      PromptProgress{*chosen, std::min(request.sent, request.prompt_count), request.prompt_count};
  return send(std::move(step), std::move(sent));
}

// Whose chunk goes next: the oldest that was passed over for too long, else by priority and length.
std::optional<RequestId> Scheduler::next_prompt() {
  std::optional<RequestId> best;
  const auto goes_before = [](const Request& a, const Request& b) {
    const bool a_late = a.passed >= kPassedMax;
    const bool b_late = b.passed >= kPassedMax;
    if (a_late || b_late) return a_late && !b_late;
    if (a.priority != b.priority) return a.priority > b.priority;
    return a.unsent() < b.unsent();
  };
  for (const auto& [id, request] : requests_) {
    if (!request.lane || request.decodes()) continue;
    if (!best || goes_before(request, requests_.at(*best))) best = id;
  }
  // By who is younger: who waits for older ones only waits for its turn. Long documents would else
  // pass each other over, and their grudges would go before every short question.
  for (auto& [id, request] : requests_) {
    if (best && id < *best && request.lane && !request.decodes()) ++request.passed;
  }
  if (best) requests_.at(*best).passed = 0;
  return best;
}

void Scheduler::add_row(PlannedStep& step, SentStep& sent, RequestId id, Request& request) {
  const std::uint32_t position = request.sent++;
  const TokenId token = request.tokens[position];
  const bool is_last = request.unsent() == 0;
  const bool wants = is_last || (request.logits_for_prompt && position < request.prompt_count);
  cache_.append(*request.lane, token);
  step.tokens.push_back(token);
  step.positions.push_back(static_cast<std::int32_t>(position));
  step.sequences.push_back(SequenceId{*request.lane});
  step.wants_logits.push_back(wants ? 1 : 0);
  step.requests.push_back(id);
  if (wants) {
    const auto index = static_cast<std::uint32_t>(sent.rows.size());
    sent.rows.push_back({.request = id, .position = position, .index = index, .samples = is_last});
  }
  if (is_last) request.waiting = true;
}

PlannedStep Scheduler::send(PlannedStep step, SentStep sent) {
  step.step = StepId{next_step_++};
  step.ops = std::exchange(ops_, {});
  sent.step = step.step;
  in_flight_.push_back(std::move(sent));
  return step;
}

std::uint32_t Scheduler::in_flight_of(bool decode) const {
  return static_cast<std::uint32_t>(
      std::count_if(in_flight_.begin(), in_flight_.end(),
                    [decode](const SentStep& sent) { return sent.decode == decode; }));
}

Result<StepOutcome> Scheduler::on_result(StepId step, bool skipped) {
  if (in_flight_.empty() || in_flight_.front().step != step) {
    return fail(ErrorCode::kInternal,
                fmt::format("the result of step {} came out of order", step.value));
  }
  SentStep sent = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (skipped && !sent.expendable) {
    return fail(ErrorCode::kInternal, fmt::format("step {} was left out unasked", step.value));
  }
  if (sent.expendable && sent.lane) cache_.settle(*sent.lane, sent.begin, sent.end, !skipped);
  std::erase_if(sent.rows,
                [this](const ResultRow& row) { return !requests_.contains(row.request); });
  if (sent.forgotten) return StepOutcome{};
  if (sent.progress && !requests_.contains(sent.progress->request)) sent.progress.reset();
  return StepOutcome{std::move(sent.rows), sent.progress};
}

void Scheduler::on_token(RequestId id, TokenId token) {
  Request& request = requests_.at(id);
  CHECK(request.waiting);
  request.waiting = false;
  request.tokens.push_back(token);
}

std::vector<StepId> Scheduler::finish(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return {};
  ++line_version_;
  std::vector<StepId> spared;
  if (found->second.lane) {
    spared = give_up_steps(id, *found->second.lane);
    cache_.release(*found->second.lane);
  }
  std::erase(queue_, id);
  requests_.erase(found);
  return spared;
}

// Chunks, and the prompt's last token that may have gone as a step of its own; an answer's next
// token alone is one row that the sequence would miss later. What comes before a step that serves
// others serves them too; a stage that leaves one out leaves out all that come after it.
std::vector<StepId> Scheduler::give_up_steps(RequestId id, std::uint32_t lane) {
  if (!limits_.can_skip) return {};
  auto first = in_flight_.end();
  for (auto sent = in_flight_.end(); sent != in_flight_.begin();) {
    --sent;
    if (serves_others(*sent, id, lane)) break;
    if (sent->lane == lane) first = sent;
  }
  if (first == in_flight_.end() || first->decode) return {};
  // A running state goes back to a checkpoint: not for less than what lies behind that.
  const std::uint32_t lost = first->begin - cache_.kept_if_doubted(lane, first->begin);
  const std::uint32_t spared_tokens = requests_.at(id).sent - first->begin;
  if (lost > spared_tokens) return {};
  cache_.doubt(lane, first->begin);
  std::vector<StepId> spared;
  for (auto sent = first; sent != in_flight_.end(); ++sent) {
    if (sent->lane != lane) continue;
    sent->expendable = true;
    spared.push_back(sent->step);
  }
  return spared;
}

// Whether somebody else needs a step about the request's sequence: it holds rows of others, or
// another sequence was begun with what it computes.
bool Scheduler::serves_others(const SentStep& sent, RequestId gone, std::uint32_t lane) const {
  if (sent.lane) return sent.lane == lane && cache_.lends(lane, sent.begin);
  return std::any_of(sent.rows.begin(), sent.rows.end(),
                     [gone](const ResultRow& row) { return row.request == gone; });
}

void Scheduler::replay() {
  for (SentStep& sent : in_flight_) {
    sent.forgotten = true;
    sent.lane.reset();
  }
  cache_.forget_all();
  ops_.clear();
  for (auto& [id, request] : requests_) {
    if (!request.lane) continue;
    request.waiting = false;
    cache_.release(*request.lane);
    place(request, {.lane = *request.lane, .source = *request.lane});
  }
}

std::uint32_t Scheduler::token_count(RequestId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? 0 : static_cast<std::uint32_t>(found->second.tokens.size());
}

std::uint32_t Scheduler::reused_count(RequestId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? 0 : found->second.reused;
}

bool Scheduler::has_sequence(RequestId id) const {
  const auto found = requests_.find(id);
  return found != requests_.end() && found->second.lane.has_value();
}

// In next_in_queue()'s order, if nobody joins meanwhile.
std::vector<RequestId> Scheduler::line() const {
  std::vector<RequestId> line(queue_.begin(), queue_.end());
  std::stable_sort(line.begin(), line.end(), [this](RequestId a, RequestId b) {
    const Request& one = requests_.at(a);
    const Request& other = requests_.at(b);
    const bool one_late = one.passed >= kPassedMax;
    const bool other_late = other.passed >= kPassedMax;
    if (one_late || other_late) return one_late && !other_late;
    return one.priority > other.priority;
  });
  const auto placed = static_cast<std::size_t>(
      std::count_if(requests_.begin(), requests_.end(),
                    [](const auto& entry) { return entry.second.lane.has_value(); }));
  const std::size_t idle = limits_.sequence_count - placed;
  line.erase(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(std::min(idle, line.size())));
  return line;
}

std::vector<SequenceUse> Scheduler::sequences() const {
  std::vector<SequenceUse> uses(limits_.sequence_count);
  for (std::uint32_t lane = 0; lane < limits_.sequence_count; ++lane) {
    uses[lane].tokens = cache_.token_count(lane);
  }
  for (const auto& [id, request] : requests_) {
    if (!request.lane) continue;
    SequenceUse& use = uses[*request.lane];
    use.request = id;
    use.prompt_tokens = request.prompt_count;
    use.read_tokens = std::min(request.sent, request.prompt_count);
    use.reused_tokens = request.reused;
    use.answer_tokens = static_cast<std::uint32_t>(request.tokens.size()) - request.prompt_count;
  }
  return uses;
}

}  // namespace salvage::pipeline
