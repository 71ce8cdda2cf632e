#include "pipeline/pipeline_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "pipeline/convert.h"

namespace salvage::pipeline {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContextFull:
      return "context_full";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "stop";
}

PipelineClient::PipelineClient(transport::Connection& first, transport::Connection& results,
                               const Clock& clock, const PipelineClientOptions& options)
    : first_(first),
      results_(results),
      clock_(clock),
      options_(options),
      scheduler_(options.limits),
      result_thread_([this] { result_loop(); }),
      credit_thread_([this] { credit_loop(); }) {}

PipelineClient::~PipelineClient() {
  fail_all(Error(ErrorCode::kCancelled, "the pipeline was closed"));
  first_.shutdown();
  results_.shutdown();
  result_thread_.join();
  credit_thread_.join();
}

Result<RequestId> PipelineClient::generate(GenerateRequest request) {
  RequestId id;
  std::optional<Error> unsent;
  {
    MutexLock lock(mutex_);
    if (!broken_.empty()) return fail(broken_.front());
    id.value = next_request_++;
    RETURN_IF_ERROR(scheduler_.submit({.request = id,
                                       .prompt = request.prompt,
                                       .logits_for_prompt = request.logits_for_prompt,
                                       .priority = request.priority,
                                       .turn = request.turn,
                                       .reuse_prefix = request.reuse_prefix}));
    live_.emplace(id, make_live(std::move(request)));
    const auto sent = pump();
    if (!sent) {
      live_.erase(id);  // Its owner hears of the failure from us, not from an event.
      scheduler_.finish(id);
      first_.shutdown();  // The credit thread notices and tells the other requests.
      unsent = sent.error();
    }
  }
  deliver();  // where it stands in the line; a result may be long in coming
  if (!unsent) return id;
  return fail(options_.explain ? options_.explain(std::move(*unsent)) : std::move(*unsent));
}

std::shared_ptr<PipelineClient::Live> PipelineClient::make_live(GenerateRequest request) {
  auto live = std::make_shared<Live>();
  live->submitted = clock_.now();
  live->stats.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  if (request.sampler) {
    for (const TokenId token : request.prompt) request.sampler->accept_prompt(token);
  }
  live->request = std::move(request);
  return live;
}

void PipelineClient::cancel(RequestId id) {
  {
    MutexLock lock(mutex_);
    if (live_.contains(id)) end(id, FinishReason::kCancelled);
    if (!pump()) first_.shutdown();  // The credit thread notices and tells the other requests.
  }
  deliver();
}

void PipelineClient::fail_all(const Error& error) {
  {
    MutexLock lock(mutex_);
    broken_.push_back(error);
    for (const auto& [id, live] : live_) {
      scheduler_.finish(id);
      events_.push_back([live = live, error] {
        if (live->request.handler.failed) live->request.handler.failed(error);
      });
    }
    live_.clear();
    tell_line();
  }
  deliver();
}

void PipelineClient::replay() {
  MutexLock lock(mutex_);
  scheduler_.replay();
  // A send that fails is seen by the result thread too, which ends the requests.
  (void)pump();
}

void PipelineClient::break_down(Error error) {
  {
    MutexLock lock(mutex_);
    if (!broken_.empty()) return;  // whoever broke it has said why
  }
  fail_all(options_.explain ? options_.explain(std::move(error)) : error);
}

// The first stage's credits: the scheduler keeps fewer steps under way than it was granted, so they
// only have to be read; the end of the link is news.
void PipelineClient::credit_loop() {
  transport::IncomingFrame frame;
  for (;;) {
    if (auto received = first_.receive_frame(frame); !received) {
      return break_down(Error(received.error()).within("from the first stage"));
    }
  }
}

void PipelineClient::end(RequestId id, FinishReason reason) {
  let_go(id);
  Live& ended = *live_.at(id);
  if (!ended.begun) ended.stats.queue_seconds = seconds_between(ended.submitted, clock_.now());
  events_.push_back([live = live_.at(id), reason] {
    if (live->request.handler.done) live->request.handler.done(reason, live->stats);
  });
  live_.erase(id);
}

// What of its prompt is under way, no stage need begin.
void PipelineClient::let_go(RequestId id) {
  skip_.steps = scheduler_.finish(id);
  if (skip_.steps.empty()) return;
  CHECK(wire::encode(skip_, body_).has_value());
  const auto sent = first_.send_frame({.type = wire::FrameType::kSkip,
                                       .epoch = options_.epoch,
                                       .step = {},
                                       .body = body_,
                                       .data = {}});
  if (!sent) first_.shutdown();  // The credit thread notices and tells the other requests.
}

Result<void> PipelineClient::pump() {
  const Result<void> sent = send_steps();
  note_work();
  tell_line();
  return sent;
}

// Sends whatever may be sent now. The scheduler bounds what is under way, so this does not block
// for longer than the first stage takes to read.
Result<void> PipelineClient::send_steps() {
  while (auto step = scheduler_.next()) {
    to_wire(*step, options_.position_planes, batch_);
    batch_.epoch = options_.epoch;
    batch_.logits = logits_for(*step);
    batch_.wants_timing = static_cast<bool>(observer_);
    RETURN_IF_ERROR(wire::encode(batch_, body_));
    RETURN_IF_ERROR(first_.send_frame({.type = wire::FrameType::kMicroBatch,
                                       .epoch = options_.epoch,
                                       .step = step->step,
                                       .body = body_,
                                       .data = {}}));
  }
  return {};
}

// Costs something only when somebody came, got a sequence, or went.
void PipelineClient::tell_line() {
  if (line_told_ == scheduler_.line_version()) return;
  line_told_ = scheduler_.line_version();
  const std::vector<RequestId> line = scheduler_.line();
  queued_count_ = static_cast<std::uint32_t>(line.size());
  for (std::uint32_t i = 0; i < line.size(); ++i) {
    const auto found = live_.find(line[i]);
    if (found == live_.end() || found->second->place == i + 1) continue;
    found->second->place = i + 1;
    if (!found->second->request.handler.queued) continue;
    events_.push_back(
        [live = found->second, place = i + 1] { live->request.handler.queued(place); });
  }
  for (const auto& [id, live] : live_) {
    if (!live->begun && scheduler_.has_sequence(id)) begin_reading(id, live);
  }
}

void PipelineClient::begin_reading(RequestId id, const std::shared_ptr<Live>& live) {
  live->begun = true;
  live->place = 0;
  live->stats.queue_seconds = seconds_between(live->submitted, clock_.now());
  live->stats.reused_tokens = scheduler_.reused_count(id);
  if (!live->request.handler.progress) return;
  events_.push_back([live, reused = live->stats.reused_tokens] {
    live->request.handler.progress(reused, live->stats.prompt_tokens, reused);
  });
}

void PipelineClient::note_work() {
  const bool works = scheduler_.in_flight() > 0;
  if (works == (working_since_us_ != 0)) return;
  const std::int64_t now = clock_us(clock_.now());
  if (works) {
    working_since_us_ = now;
    return;
  }
  worked_us_ += static_cast<std::uint64_t>(now - working_since_us_);
  working_since_us_ = 0;
}

std::uint64_t PipelineClient::working_us() const {
  const std::int64_t since = working_since_us_;
  const std::int64_t now = clock_us(clock_.now());
  return worked_us_ + (since == 0 || now < since ? 0 : static_cast<std::uint64_t>(now - since));
}

std::vector<SequenceUse> PipelineClient::sequences() {
  MutexLock lock(mutex_);
  return scheduler_.sequences();
}

std::size_t PipelineClient::request_count() {
  MutexLock lock(mutex_);
  return live_.size();
}

// The smallest form that serves every row of the step.
wire::LogitsRequest PipelineClient::logits_for(const PlannedStep& step) {
  wire::LogitsRequest wanted{.form = wire::LogitsForm::kTopK, .top_k = 1};
  for (std::size_t row = 0; row < step.requests.size(); ++row) {
    const auto found = live_.find(step.requests[row]);
    if (step.wants_logits[row] == 0 || found == live_.end()) continue;
    const GenerateRequest& request = found->second->request;
    const std::uint32_t candidates = request.sampler ? request.sampler->candidates_wanted() : 1;
    if (request.wants_all_logits || request.logits_for_prompt || candidates == 0) {
      return {.form = wire::LogitsForm::kAll, .top_k = 0};
    }
    wanted.top_k = std::max(wanted.top_k, std::min(candidates, options_.vocabulary_size));
  }
  return wanted;
}

void PipelineClient::deliver() {
  mutex_.lock();
  const bool mine = !delivering_;
  delivering_ = true;
  while (mine && !events_.empty()) {
    const auto event = std::move(events_.front());
    events_.pop_front();
    mutex_.unlock();
    event();
    mutex_.lock();
  }
  if (mine) delivering_ = false;
  mutex_.unlock();
  if (mine) delivered_.notify_all();
}

// Returns when every event has been heard, whoever delivers it: logits are lent to handlers until
// this thread receives again.
void PipelineClient::deliver_all() {
  for (;;) {
    deliver();
    MutexLock lock(mutex_);
    if (!delivering_ && events_.empty()) return;
    if (delivering_) delivered_.wait(mutex_);
  }
}

}  // namespace salvage::pipeline
