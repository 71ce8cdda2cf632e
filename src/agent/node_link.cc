#include "agent/node_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "cluster/liveness.h"
#include "pipeline/handshake.h"

namespace salvage::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Logger kLog("node_link");
constexpr Duration kRetryMin = milliseconds(250);
constexpr Duration kRetryMax = seconds(10);
// Also the longest that the end of the program waits for an address that nobody answers at.
constexpr auto kDialTime = seconds(4);
constexpr auto kSendTime = seconds(5);
constexpr auto kTickPeriod = seconds(1);

}  // namespace

NodeLink::NodeLink(NodeLinkOptions options, NodeLinkEvents events, transport::Transport& transport,
                   const Clock& clock)
    : options_(std::move(options)),
      events_(std::move(events)),
      transport_(transport),
      clock_(clock) {}

void NodeLink::start() {
  thread_ = std::thread([this] { run(); });
}

void NodeLink::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (live_) live_->connection->shutdown();
  }
  wake_.notify_all();
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<NodeLink::Live> NodeLink::current() const {
  MutexLock lock(mutex_);
  return live_;
}

void NodeLink::set_current(std::shared_ptr<Live> live) {
  MutexLock lock(mutex_);
  live_ = std::move(live);
  if (live_ && (stopping_ || last_)) live_->connection->shutdown();
}

bool NodeLink::connected() const {
  return current() != nullptr;
}

void NodeLink::retry_now() {
  {
    MutexLock lock(mutex_);
    retry_ = true;
  }
  wake_.notify_all();
}

void NodeLink::dial_no_more() {
  {
    MutexLock lock(mutex_);
    last_ = true;
  }
  wake_.notify_all();
}

TimePoint NodeLink::send_deadline() const {
  return deadline_after(clock_.now(), kSendTime);
}

void NodeLink::run() {
  Random random(options_.retry_seed);
  Duration wait = kRetryMin;
  while (!ends()) {
    const TimePoint begin = clock_.now();
    const Result<void> ended = serve();
    set_current(nullptr);
    if (ends()) return;
    // A link that stood for a while begins the pauses anew.
    if (clock_.now() - begin > kRetryMax) wait = kRetryMin;
    const auto jitter = std::chrono::duration_cast<Duration>(wait * (0.5 + random.unit()));
    events_.down(ended.error(), jitter);
    pause(jitter);
    wait = std::min(wait * 2, kRetryMax);
  }
}

bool NodeLink::ends() const {
  MutexLock lock(mutex_);
  return stopping_ || last_;
}

void NodeLink::pause(Duration time) {
  const TimePoint until = deadline_after(clock_.now(), time);
  MutexLock lock(mutex_);
  while (!stopping_ && !last_ && !retry_ && wake_.wait_until(mutex_, until)) {
  }
  retry_ = false;
}

Result<void> NodeLink::serve() {
  wire::Hello hello;
  hello.wire_version = options_.wire_version;
  hello.llama_pin = options_.llama_pin;
  hello.kernel_fingerprint = options_.kernel_fingerprint;
  hello.role = wire::LinkRole::kNode;
  const auto addresses = events_.addresses();
  ASSIGN_OR_RETURN(auto dialed,
                   pipeline::dial_any(transport_, addresses, hello,
                                      deadline_after(clock_.now(), kDialTime), stop_.get_token()));
  const auto live = std::make_shared<Live>(std::move(dialed.connection));
  kLog.info("link_up", {{"peer", live->connection->peer()}});
  RETURN_IF_ERROR(live->control.send(events_.up(*live->connection), send_deadline()));
  set_current(live);
  return receive(*live);
}

Result<void> NodeLink::receive(Live& live) {
  cluster::Liveness liveness;
  TimePoint next_tick = deadline_after(clock_.now(), kTickPeriod);
  for (;;) {
    const auto frame = live.control.receive(next_tick);
    if (frame) {
      liveness.heard();
      RETURN_IF_ERROR(take(live, **frame));
      continue;
    }
    if (frame.error().code() != ErrorCode::kDeadlineExceeded) return fail(frame.error());
    next_tick = deadline_after(clock_.now(), kTickPeriod);
    const auto nonce = liveness.tick();
    if (!nonce) return fail(ErrorCode::kUnavailable, "the coordinator has stopped answering");
    RETURN_IF_ERROR(live.control.send(wire::Ping{.nonce = *nonce}, send_deadline()));
  }
}

Result<void> NodeLink::take(Live& live, const transport::IncomingFrame& frame) {
  switch (frame.header.type) {
    case wire::FrameType::kPong:
      return {};
    case wire::FrameType::kPing: {
      ASSIGN_OR_RETURN(const auto ping, wire::decode_control<wire::Ping>(frame.body));
      return live.control.send(wire::Pong{.nonce = ping.nonce}, send_deadline());
    }
    default:
      return events_.frame(frame);
  }
}

}  // namespace salvage::agent
