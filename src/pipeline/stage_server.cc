#include "pipeline/stage_server.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "pipeline/convert.h"

namespace salvage::pipeline {

namespace {

constexpr std::string_view kBefore = "from the stage before";
constexpr std::string_view kAfter = "to the stage after";

}  // namespace

// One micro-batch's way through this stage, with every buffer that it needs.
struct StageServer::Job {
  wire::MicroBatch batch;
  wire::FloatBuffer hidden_in;
  std::vector<std::byte> packed;  // hidden states as f16 or q8, in or out
  std::vector<engine::SequenceOp> ops;
  engine::StepOutput output;
  wire::StepResult result;   // last stage
  wire::FloatBuffer logits;  // last stage, all logits wanted
  std::vector<std::byte> body;
  TimePoint received;
};

StageServer::StageServer(engine::StageEngine& engine, transport::Connection& upstream,
                         transport::Connection& downstream, const Clock& clock,
                         const StageServerOptions& options)
    : engine_(engine),
      upstream_(upstream),
      downstream_(downstream),
      clock_(clock),
      options_(options),
      free_(options.credits + 3),
      received_(options.credits + 3),
      computed_(1),
      downstream_credits_(options.downstream_credits) {
  // One job with the engine, one computed, one being sent; the rest received or waiting.
  for (std::uint32_t i = 0; i < options.credits + 3; ++i) (void)free_.push(std::make_unique<Job>());
}

StageServer::~StageServer() = default;

Error StageServer::run() {
  std::thread receiver([this] { receive_loop(); });
  std::thread sender([this] { send_loop(); });
  std::optional<std::thread> credits;
  if (!engine_.facts().gives_logits) credits.emplace([this] { credit_loop(); });
  end(compute_loop());
  receiver.join();
  sender.join();
  if (credits) credits->join();
  MutexLock lock(mutex_);
  return reasons_.front();
}

void StageServer::stop() {
  end(Error(ErrorCode::kCancelled, "the stage was told to stop"));
}

// Wakes every thread; the first reason given is the one that run() returns.
void StageServer::end(Error reason) {
  {
    MutexLock lock(mutex_);
    reasons_.push_back(std::move(reason));
    ended_ = true;
  }
  credit_arrived_.notify_all();
  free_.close();
  received_.close();
  computed_.close();
  upstream_.shutdown();
  downstream_.shutdown();
}

// A job is taken once a micro-batch has come, and then one is free: its sender had a credit for it.
// So a skip is heard however full this stage is.
void StageServer::receive_loop() {
  transport::IncomingFrame frame;
  for (;;) {
    const Result<bool> is_batch = receive_frame(frame);
    if (!is_batch) return end(Error(is_batch.error()));
    if (!*is_batch) continue;
    const TimePoint received = clock_.now();
    auto job = free_.pop();
    if (!job) return;
    (*job)->received = received;
    if (auto done = receive_batch(**job, frame); !done) {
      return end(Error(done.error()).within(kBefore));
    }
    if (!received_.push(std::move(*job))) return;
  }
}

// False: nothing to compute. A frame of an old plan, dropped, or a skip.
Result<bool> StageServer::receive_frame(transport::IncomingFrame& frame) {
  if (auto got = upstream_.receive_frame(frame); !got)
    return fail(Error(got.error()).within(kBefore));
  const bool is_skip = frame.header.type == wire::FrameType::kSkip;
  if (!is_skip && frame.header.type != wire::FrameType::kMicroBatch) {
    return fail(Error(ErrorCode::kCorrupt, "a data link carried another frame than a micro-batch")
                    .within(kBefore));
  }
  if (frame.header.epoch != options_.epoch) {
    if (frame.header.data_bytes == 0) return false;
    if (auto read = upstream_.skip_data(); !read) return fail(Error(read.error()).within(kBefore));
    return false;
  }
  if (!is_skip) return true;
  upstream_.acknowledge();  // nothing goes back for it
  if (auto noted = note_skip(frame); !noted) return fail(Error(noted.error()).within(kBefore));
  if (engine_.facts().gives_logits) return false;
  if (auto sent = hand_on_skip(); !sent) return fail(Error(sent.error()).within(kAfter));
  return false;
}

Result<void> StageServer::receive_batch(Job& job, const transport::IncomingFrame& frame) {
  RETURN_IF_ERROR(wire::decode(frame.header, frame.body, job.batch));
  RETURN_IF_ERROR(check(job.batch));
  const wire::HiddenShape& shape = job.batch.hidden;
  ASSIGN_OR_RETURN(const std::span<float> rows,
                   job.hidden_in.resize(std::uint64_t{shape.row_count} * shape.row_width));
  if (shape.row_count == 0) return {};
  if (shape.type == wire::HiddenType::kF32) {
    return upstream_.receive_data(job.hidden_in.bytes());
  }
  job.packed.resize(wire::hidden_bytes(shape));
  RETURN_IF_ERROR(upstream_.receive_data(job.packed));
  return wire::decode_hidden(job.packed, shape, rows);
}

// Those that have been begun here may still be left out further down.
Result<void> StageServer::note_skip(const transport::IncomingFrame& frame) {
  RETURN_IF_ERROR(wire::decode(frame.header, frame.body, skip_));
  MutexLock lock(mutex_);
  std::copy_if(skip_.steps.begin(), skip_.steps.end(), std::back_inserter(to_skip_),
               [last = last_begun_](StepId step) { return step > last; });
  std::sort(to_skip_.begin(), to_skip_.end());
  if (to_skip_.size() <= wire::kSkipStepsMax) return {};
  return fail(ErrorCode::kCorrupt, "more steps to skip than can be under way");
}

Result<void> StageServer::hand_on_skip() {
  RETURN_IF_ERROR(wire::encode(skip_, skip_body_));
  return send_downstream({.type = wire::FrameType::kSkip,
                          .epoch = options_.epoch,
                          .step = {},
                          .body = skip_body_,
                          .data = {}});
}

// Whether this step, which begins now, is to be left out.
bool StageServer::skips(StepId step) {
  MutexLock lock(mutex_);
  last_begun_ = step;
  const auto found = std::lower_bound(to_skip_.begin(), to_skip_.end(), step);
  const bool skip = found != to_skip_.end() && *found == step;
  to_skip_.erase(to_skip_.begin(), skip ? found + 1 : found);
  return skip;
}

// Against the plan, before anything is allocated for the rows.
Result<void> StageServer::check(const wire::MicroBatch& batch) const {
  const engine::StageFacts& facts = engine_.facts();
  const std::uint32_t width = facts.takes_tokens ? 0 : facts.row_width_in;
  const std::uint32_t rows = facts.takes_tokens || batch.skipped ? 0 : batch.row_count();
  if (batch.row_count() == 0 || batch.row_count() > options_.rows_max) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a micro-batch of {} rows; the plan allows 1 to {}", batch.row_count(),
                            options_.rows_max));
  }
  if (batch.hidden.row_count != rows || batch.hidden.row_width != (rows > 0 ? width : 0)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("hidden states of {} x {}, expected {} x {}", batch.hidden.row_count,
                            batch.hidden.row_width, rows, width));
  }
  if (batch.position_planes != facts.position_planes) {
    return fail(ErrorCode::kInvalidArgument, "wrong number of position planes");
  }
  return {};
}

Error StageServer::compute_loop() {
  std::vector<std::byte> credit_body;
  (void)wire::encode(wire::Credit{1}, credit_body);
  for (;;) {
    counters_.idle.begin(clock_.now());
    auto job = received_.pop();
    counters_.idle.end(clock_.now());
    if (!job) return Error(ErrorCode::kCancelled, "the stage ended");
    // The place in the queue is free again: whoever is before us may send one more.
    const auto granted = upstream_.send_frame({.type = wire::FrameType::kCredit,
                                               .epoch = options_.epoch,
                                               .step = {},
                                               .body = credit_body,
                                               .data = {}});
    if (!granted) return Error(granted.error()).within("to the stage before");
    if (auto done = compute_one(**job); !done) {
      failed_step_ = (*job)->batch.step;
      return Error(done.error());
    }
    counters_.idle.begin(clock_.now());
    if (!computed_.push(std::move(*job))) return Error(ErrorCode::kCancelled, "the stage ended");
    counters_.idle.end(clock_.now());
  }
}

Result<void> StageServer::compute_one(Job& job) {
  const TimePoint begin = clock_.now();
  counters_.busy.begin(begin);
  wire::MicroBatch& batch = job.batch;
  batch.skipped = skips(batch.step) || batch.skipped;
  // What a save would keep may have been left out before.
  if (batch.skipped) {
    std::erase_if(batch.ops, [](const auto& op) { return op.kind == wire::SequenceOpKind::kSave; });
  }
  to_engine(batch.ops, job.ops);
  RETURN_IF_ERROR(engine_.apply(job.ops));
  if (batch.skipped) {
    counters_.busy.end(clock_.now());
    leave_out(job);
    return {};
  }
  RETURN_IF_ERROR(engine_.run(view_of(batch, std::as_const(job.hidden_in).floats()), job.output));
  const TimePoint end = clock_.now();
  if (batch.wants_timing) {
    wire::StageTiming timing{.stage = options_.stage};
    timing.queue_us = static_cast<std::uint32_t>(microseconds_between(job.received, begin));
    timing.compute_us = static_cast<std::uint32_t>(microseconds_between(begin, end));
    timing.send_us = counters_.last_send_us;
    batch.timings.push_back(timing);
  }
  counters_.steps += 1;
  counters_.rows += batch.row_count();
  counters_.queue_us += static_cast<std::uint64_t>(microseconds_between(job.received, begin));
  if (engine_.facts().gives_logits) RETURN_IF_ERROR(make_result(job));
  counters_.busy.end(clock_.now());
  return {};
}

// Its micro-batch or, from the last stage, its result goes on without rows.
void StageServer::leave_out(Job& job) const {
  job.output.hidden.clear();
  job.output.logits = {};
  wire::StepResult& result = job.result;
  result.skipped = true;
  result.epoch = options_.epoch;
  result.step = job.batch.step;
  result.form = job.batch.logits.form;
  result.vocabulary_size = engine_.facts().vocabulary_size;
  result.top_k = std::min(job.batch.logits.top_k, result.vocabulary_size);
  result.row_count = 0;
  result.ids.clear();
  result.logits.clear();
  result.log_sum_exp.clear();
  result.hashes.clear();
  result.timings.clear();
}

// The engine's logits are valid until its next run only: reduce them, or copy them out.
Result<void> StageServer::make_result(Job& job) {
  const std::uint32_t vocabulary = engine_.facts().vocabulary_size;
  wire::StepResult& result = job.result;
  result.epoch = options_.epoch;
  result.step = job.batch.step;
  result.skipped = false;
  result.form = job.batch.logits.form;
  result.top_k = std::min(job.batch.logits.top_k, vocabulary);
  result.vocabulary_size = vocabulary;
  result.row_count = static_cast<std::uint32_t>(job.output.logits.size() / vocabulary);
  result.timings = job.batch.timings;
  wire::reduce_logits(job.output.logits, result);
  if (result.form != wire::LogitsForm::kAll) return {};
  ASSIGN_OR_RETURN(const std::span<float> copy, job.logits.resize(job.output.logits.size()));
  std::copy(job.output.logits.begin(), job.output.logits.end(), copy.begin());
  return {};
}

void StageServer::send_loop() {
  while (auto job = computed_.pop()) {
    const TimePoint begin = clock_.now();
    if (auto sent = send_one(**job); !sent) {
      return end(Error(sent.error()).within(kAfter));
    }
    counters_.last_send_us = static_cast<std::uint32_t>(microseconds_between(begin, clock_.now()));
    (void)free_.push(std::move(*job));
  }
}

Result<void> StageServer::send_one(Job& job) {
  transport::OutgoingFrame frame{.type = wire::FrameType::kMicroBatch,
                                 .epoch = options_.epoch,
                                 .step = job.batch.step,
                                 .body = {},
                                 .data = {}};
  if (engine_.facts().gives_logits) {
    frame.type = wire::FrameType::kStepResult;
    RETURN_IF_ERROR(wire::encode(job.result, job.body));
    if (job.result.data_bytes() != 0) frame.data = job.logits.bytes();
  } else {
    wire::HiddenShape& shape = job.batch.hidden;
    shape = {};
    if (!job.batch.skipped) {
      shape = {job.batch.row_count(), engine_.facts().row_width_out, options_.outgoing_type};
    }
    RETURN_IF_ERROR(wire::encode(job.batch, job.body));
    frame.data = wire::float_bytes(job.output.hidden);
    if (shape.row_count > 0 && shape.type != wire::HiddenType::kF32) {
      wire::encode_hidden(job.output.hidden, shape.row_width, shape.type, job.packed);
      frame.data = job.packed;
    }
    RETURN_IF_ERROR(wait_for_credit());
  }
  frame.body = job.body;
  return send_downstream(frame);
}

Result<void> StageServer::send_downstream(const transport::OutgoingFrame& frame) {
  MutexLock lock(downstream_mutex_);
  return downstream_.send_frame(frame);
}

Result<void> StageServer::wait_for_credit() {
  MutexLock lock(mutex_);
  while (downstream_credits_ == 0 && !ended_) credit_arrived_.wait(mutex_);
  if (ended_) return fail(ErrorCode::kCancelled, "the stage ended");
  --downstream_credits_;
  return {};
}

void StageServer::credit_loop() {
  transport::IncomingFrame frame;
  wire::Credit credit;
  for (;;) {
    auto received = downstream_.receive_frame(frame);
    if (received) received = wire::decode(frame.header, frame.body, credit);
    if (!received) return end(Error(received.error()).within("from the stage after"));
    {
      MutexLock lock(mutex_);
      downstream_credits_ += credit.count;
    }
    credit_arrived_.notify_one();
  }
}

wire::Stats StageServer::stats(bool reset) {
  const auto take = [reset](std::atomic<std::uint64_t>& counter) {
    return reset ? counter.exchange(0) : counter.load();
  };
  wire::Stats stats;
  stats.stage_index = options_.stage.value;
  stats.steps = take(counters_.steps);
  stats.rows = take(counters_.rows);
  const TimePoint now = clock_.now();
  stats.busy_us = reset ? counters_.busy.reset() : counters_.busy.us(now);
  stats.idle_us = reset ? counters_.idle.reset() : counters_.idle.us(now);
  stats.queue_us = take(counters_.queue_us);
  stats.bytes_in = upstream_.bytes().in;
  stats.bytes_out = downstream_.bytes().out;
  const std::optional<std::uint64_t> out_busy_us = downstream_.busy_us();
  stats.out_timed = out_busy_us.has_value();
  stats.out_busy_us = out_busy_us.value_or(0);
  return stats;
}

}  // namespace salvage::pipeline
