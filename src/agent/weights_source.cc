#include "agent/weights_source.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "pipeline/handshake.h"

namespace salvage::agent {
namespace {

using std::chrono::seconds;

constexpr auto kSourceDialTime = seconds(5);
// The fetch itself notices a stall earlier (store/fetch_plan.h) and resets.
constexpr auto kAnswerTime = seconds(120);
constexpr auto kSourceSendTime = seconds(10);

}  // namespace

WeightsSource::WeightsSource(SourceOptions options, SourceEvents events,
                             transport::Transport& transport, const Clock& clock)
    : options_(std::move(options)),
      events_(std::move(events)),
      transport_(transport),
      clock_(clock),
      thread_([this] { run(); }) {}

WeightsSource::~WeightsSource() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (connection_) connection_->shutdown();
  }
  work_.notify_all();
  thread_.join();
}

void WeightsSource::ask(const SourceAsk& ask) {
  {
    MutexLock lock(mutex_);
    waiting_.push_back(ask);
  }
  work_.notify_all();
}

void WeightsSource::reset() {
  MutexLock lock(mutex_);
  waiting_.clear();
  sent_.clear();
  if (connection_) connection_->shutdown();
}

bool WeightsSource::wait_for_work() {
  MutexLock lock(mutex_);
  while (!stopping_ && waiting_.empty() && sent_.empty()) work_.wait(mutex_);
  return !stopping_;
}

void WeightsSource::run() {
  while (wait_for_work()) {
    const Result<void> ended = serve();
    {
      MutexLock lock(mutex_);
      connection_.reset();
    }
    if (!ended) fail_all(ended.error());
  }
}

void WeightsSource::fail_all(const Error& error) {
  std::deque<SourceAsk> lost;
  {
    MutexLock lock(mutex_);
    lost.swap(sent_);
    lost.insert(lost.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }
  for (const SourceAsk& ask : lost) events_.failed(ask.request, error);
}

// One connection, until it breaks, is reset, or the source ends.
Result<void> WeightsSource::serve() {
  wire::Hello hello;
  hello.wire_version = options_.wire_version;
  hello.llama_pin = options_.llama_pin;
  hello.role = wire::LinkRole::kWeights;
  ASSIGN_OR_RETURN(auto dialed, pipeline::dial_any(transport_, options_.endpoints, hello,
                                                   deadline_after(clock_.now(), kSourceDialTime)));
  const std::shared_ptr<transport::Connection> connection = std::move(dialed.connection);
  {
    MutexLock lock(mutex_);
    if (stopping_) return {};
    connection_ = connection;
  }
  pipeline::ControlLink link(*connection);
  while (wait_for_work()) {
    RETURN_IF_ERROR(send_asked(link));
    RETURN_IF_ERROR(receive_one(*connection));
  }
  return {};
}

Result<void> WeightsSource::send_asked(pipeline::ControlLink& link) {
  for (;;) {
    wire::BlobRequest next;
    {
      MutexLock lock(mutex_);
      if (waiting_.empty()) return {};
      next = waiting_.front().range;
      sent_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    RETURN_IF_ERROR(link.send(next, deadline_after(clock_.now(), kSourceSendTime)));
  }
}

Result<void> WeightsSource::receive_one(transport::Connection& connection) {
  transport::IncomingFrame frame;
  RETURN_IF_ERROR(connection.receive_frame(frame, deadline_after(clock_.now(), kAnswerTime)));
  if (frame.header.type != wire::BlobReply::kType) {
    return fail(ErrorCode::kCorrupt, "the peer sent something else than the bytes asked for");
  }
  std::vector<std::byte> bytes(frame.header.data_bytes);
  if (!bytes.empty()) {
    RETURN_IF_ERROR(connection.receive_data(bytes, deadline_after(clock_.now(), kAnswerTime)));
  }
  ASSIGN_OR_RETURN(const auto reply, wire::decode_control<wire::BlobReply>(frame.body));
  SourceAsk ask;
  {
    MutexLock lock(mutex_);
    if (sent_.empty()) return fail(ErrorCode::kUnavailable, "the link was reset");
    ask = std::move(sent_.front());
    sent_.pop_front();
  }
  if (reply.name != ask.range.name || reply.offset != ask.range.offset) {
    events_.failed(ask.request, Error(ErrorCode::kCorrupt, "an answer out of order"));
    return fail(ErrorCode::kCorrupt, "the peer answered something else than was asked");
  }
  if (!reply.error_code.empty()) {
    events_.failed(ask.request, Error(wire::parse_error_code(reply.error_code), reply.error));
    return {};
  }
  if (bytes.size() != ask.range.length) {
    events_.failed(ask.request, Error(ErrorCode::kCorrupt, "an answer of another length"));
    return fail(ErrorCode::kCorrupt, "the peer sent another number of bytes than was asked");
  }
  events_.received({ask.request, std::move(bytes), reply.total_bytes});
  return {};
}

}  // namespace salvage::agent
