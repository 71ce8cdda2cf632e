#include "agent/worker_link.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace salvage::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A worker that has just started needs some milliseconds until it listens.
constexpr auto kStartTime = seconds(20);
constexpr auto kRetryTime = milliseconds(5);
constexpr auto kLeaveTime = milliseconds(1500);

// The last line that says something, for a one-line message.
std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

}  // namespace

WorkerLink::WorkerLink(Child child, const WorkerStart& start, const Clock& clock)
    : stage_index_(start.stage_index),
      clock_(clock),
      progress_(start.progress),
      child_(std::move(child)),
      last_heard_(clock.now()) {}

Result<std::unique_ptr<WorkerLink>> WorkerLink::start(const WorkerStart& start,
                                                      transport::Transport& transport,
                                                      const Clock& clock) {
  std::vector<std::string> arguments{start.executable, "stage", "--listen", start.endpoint};
  arguments.insert(arguments.end(), start.arguments.begin(), start.arguments.end());
  ASSIGN_OR_RETURN(Child child,
                   Child::spawn({.arguments = arguments, .secret_line = start.secret}));
  std::unique_ptr<WorkerLink> worker(new WorkerLink(std::move(child), start, clock));
  RETURN_IF_ERROR(worker->connect(start, transport));
  worker->reader_ = std::thread([link = worker.get()] { link->read_loop(); });
  return worker;
}

Result<void> WorkerLink::connect(const WorkerStart& start, transport::Transport& transport) {
  ASSIGN_OR_RETURN(const transport::Endpoint endpoint, transport::parse_endpoint(start.endpoint));
  const TimePoint deadline = deadline_after(clock_.now(), kStartTime);
  for (;;) {
    auto dialed = pipeline::dial(transport, endpoint, start.hello, deadline);
    if (dialed) {
      connection_ = std::move(dialed->connection);
      link_ = std::make_unique<pipeline::ControlLink>(*connection_);
      return {};
    }
    MutexLock lock(mutex_);
    if (const auto status = child_.wait_for(kRetryTime)) return fail(died(*status));
    if (clock_.now() >= deadline) return fail(std::move(dialed).error());
  }
}

WorkerLink::~WorkerLink() {
  release();
  {
    MutexLock lock(mutex_);
    child_.wait_for(kLeaveTime);
    child_.kill();
  }
  if (link_) link_->shutdown();
  if (reader_.joinable()) reader_.join();
}

void WorkerLink::release() {
  if (link_)
    (void)link_->send(wire::Shutdown{.reason = "done"}, deadline_after(clock_.now(), kLeaveTime));
  MutexLock lock(mutex_);
  child_.release();
}

void WorkerLink::read_loop() {
  for (;;) {
    const auto frame = link_->receive();
    const Result<void> taken = frame ? take(**frame) : Result<void>(fail(frame.error()));
    if (!taken) {
      (void)outcome_.push(fail(taken.error()), clock_.now());
      outcome_.close();
      stats_.close();
      listening_.close();
      return;
    }
  }
}

Result<void> WorkerLink::take(const transport::IncomingFrame& frame) {
  {
    MutexLock lock(mutex_);
    last_heard_ = clock_.now();
    pings_unanswered_ = 0;
  }
  switch (frame.header.type) {
    case wire::FrameType::kPong:
      return {};
    case wire::FrameType::kProgress: {
      ASSIGN_OR_RETURN(const auto progress, wire::decode_control<wire::Progress>(frame.body));
      if (progress_) progress_(stage_index_, progress.fraction, progress.phase);
      return {};
    }
    case wire::FrameType::kStageLoaded: {
      ASSIGN_OR_RETURN(auto loaded, wire::decode_control<wire::StageLoaded>(frame.body));
      (void)outcome_.push(std::move(loaded), clock_.now());
      return {};
    }
    case wire::FrameType::kStageFailed: {
      ASSIGN_OR_RETURN(const auto failed, wire::decode_control<wire::StageFailed>(frame.body));
      const Error error(wire::parse_error_code(failed.code), failed.message);
      (void)outcome_.push(fail(error), clock_.now());
      MutexLock lock(mutex_);
      if (!failure_) failure_ = error;
      return {};
    }
    case wire::FrameType::kStageListening: {
      ASSIGN_OR_RETURN(auto said, wire::decode_control<wire::StageListening>(frame.body));
      (void)listening_.push(std::move(said), clock_.now());
      return {};
    }
    case wire::FrameType::kStats: {
      ASSIGN_OR_RETURN(auto stats, wire::decode_control<wire::Stats>(frame.body));
      (void)stats_.push(stats, clock_.now());
      return {};
    }
    default:
      return fail(ErrorCode::kCorrupt, "an unexpected frame on the control link");
  }
}

Result<wire::StageListening> WorkerLink::listening(TimePoint deadline) {
  if (auto said = listening_.pop(deadline)) return std::move(*said);
  return fail(ErrorCode::kUnavailable, fmt::format("stage {} is gone", stage_index_));
}

Result<wire::StageLoaded> WorkerLink::loaded(TimePoint deadline) {
  if (auto outcome = outcome_.pop(deadline)) return std::move(*outcome);
  if (outcome_.closed())
    return fail(ErrorCode::kUnavailable, fmt::format("stage {} is gone", stage_index_));
  return fail(ErrorCode::kDeadlineExceeded,
              fmt::format("stage {} is not loaded yet", stage_index_));
}

Result<wire::Stats> WorkerLink::stats(bool reset, TimePoint deadline) {
  RETURN_IF_ERROR(link_->send(wire::StatsRequest{.reset = reset}, deadline));
  auto stats = stats_.pop(deadline);
  if (!stats)
    return fail(ErrorCode::kUnavailable, fmt::format("stage {} gave no statistics", stage_index_));
  return *stats;
}

Error WorkerLink::died(const ExitStatus& status) {
  const std::string words = last_line(child_.last_words());
  return Error(ErrorCode::kUnavailable,
               fmt::format("stage {} (process {}) died: {}{}{}", stage_index_, child_.pid(),
                           status.text(), words.empty() ? "" : "; its last words: ", words));
}

std::optional<Error> WorkerLink::death(TimePoint deadline) {
  MutexLock lock(mutex_);
  auto status = child_.poll();
  if (!status && deadline > clock_.now()) {
    status = child_.wait_for(std::chrono::duration_cast<milliseconds>(deadline - clock_.now()));
  }
  if (!status) return std::nullopt;
  return died(*status);
}

std::optional<Error> WorkerLink::reported_failure() {
  MutexLock lock(mutex_);
  if (!failure_) return std::nullopt;
  return Error(*failure_).within(fmt::format("stage {}", stage_index_));
}

std::optional<Error> WorkerLink::silence(std::uint32_t pings_max) {
  {
    MutexLock lock(mutex_);
    ++pings_unanswered_;
  }
  (void)link_->send(wire::Ping{}, deadline_after(clock_.now(), milliseconds(100)));
  MutexLock lock(mutex_);
  (void)child_.poll();  // Empties the pipe of its messages: a full one would stop it.
  if (pings_unanswered_ <= pings_max) return std::nullopt;
  const auto silent = clock_.now() - last_heard_;
  return Error(
      ErrorCode::kUnavailable,
      fmt::format("stage {} (process {}) has not answered for {} s; is it stopped, or is "
                  "the machine swapping?",
                  stage_index_, child_.pid(), std::chrono::duration_cast<seconds>(silent).count()));
}

}  // namespace salvage::agent
