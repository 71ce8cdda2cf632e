#include "transport/memory_transport.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "base/mutex.h"
#include "transport/frame_io.h"

namespace salvage::transport {
namespace {

constexpr std::size_t kBacklog = 64;

struct StoredFrame {
  wire::FrameHeaderBytes header{};
  std::vector<std::byte> body;
  std::vector<std::byte> data;
};
using FrameQueue = BoundedQueue<StoredFrame>;

std::uint64_t bytes_of(const StoredFrame& frame) {
  return frame.header.size() + frame.body.size() + frame.data.size();
}

// Flips one bit where the checksums must find it.
void damage(StoredFrame& frame) {
  std::byte& victim = !frame.data.empty()   ? frame.data.back()
                      : !frame.body.empty() ? frame.body.back()
                                            : frame.header.back();
  victim ^= std::byte{1};
}

class MemoryConnection final : public Connection {
 public:
  // The two queues are shared by the two ends and live as long as the longer one.
  MemoryConnection(std::shared_ptr<FrameQueue> incoming, std::shared_ptr<FrameQueue> outgoing,
                   MemoryFaults faults, std::string peer)
      : incoming_(std::move(incoming)),
        outgoing_(std::move(outgoing)),
        faults_(faults),
        peer_(std::move(peer)) {}
  ~MemoryConnection() override { shutdown(); }

  Result<void> send_frame(const OutgoingFrame& frame, TimePoint deadline) override {
    if (faults_.cut_after_frames > 0 && frames_sent_ >= faults_.cut_after_frames) shutdown();
    StoredFrame stored;
    ASSIGN_OR_RETURN(stored.header, make_header(frame, wire_version()));
    stored.body.assign(frame.body.begin(), frame.body.end());
    stored.data.assign(frame.data.begin(), frame.data.end());
    const std::uint64_t bytes = bytes_of(stored);
    if (++frames_sent_ == faults_.corrupt_frame) damage(stored);
    if (!outgoing_->push(std::move(stored), deadline)) {
      if (outgoing_->closed()) return fail(gone());
      --frames_sent_;
      return fail(ErrorCode::kDeadlineExceeded, peer_ + ": the time is over");
    }
    bytes_out_ += bytes;
    return {};
  }

  Result<void> receive_frame(IncomingFrame& frame, TimePoint deadline) override {
    RETURN_IF_ERROR(assembly_.expect_head());
    if (shut_down_) return fail(gone());
    auto stored = incoming_->pop(deadline);
    if (!stored || shut_down_) {
      if (incoming_->closed() || shut_down_) return fail(gone());
      return fail(ErrorCode::kDeadlineExceeded, peer_ + ": the time is over");
    }
    bytes_in_ += bytes_of(*stored);
    ASSIGN_OR_RETURN(frame.header, wire::decode_header(stored->header));
    frame.body = std::move(stored->body);
    data_ = std::move(stored->data);
    return assembly_.head_arrived(frame);
  }

  Result<void> receive_data(std::span<std::byte> data, TimePoint) override {
    RETURN_IF_ERROR(assembly_.expect_data(data.size()));
    std::copy(data_.begin(), data_.end(), data.begin());
    return assembly_.data_arrived(data);
  }

  Result<void> skip_data(TimePoint) override {
    RETURN_IF_ERROR(assembly_.expect_data(data_.size()));
    assembly_.data_skipped();
    return {};
  }

  void shutdown() override {
    shut_down_ = true;
    incoming_->close();
    outgoing_->close();
  }
  std::string peer() const override { return peer_; }
  ConnectionBytes bytes() const override { return {bytes_in_, bytes_out_}; }

 private:
  Error gone() const {
    return {ErrorCode::kUnavailable,
            peer_ + (shut_down_ ? ": the link was shut down" : ": the peer closed the connection")};
  }

  const std::shared_ptr<FrameQueue> incoming_;
  const std::shared_ptr<FrameQueue> outgoing_;
  const MemoryFaults faults_;
  const std::string peer_;
  std::atomic<bool> shut_down_ = false;
  std::atomic<std::uint64_t> bytes_in_ = 0;
  std::atomic<std::uint64_t> bytes_out_ = 0;
  std::uint64_t frames_sent_ = 0;  // sender thread only
  FrameAssembly assembly_;         // receiver thread only
  std::vector<std::byte> data_;    // receiver thread only
};

using ConnectionQueue = BoundedQueue<std::unique_ptr<Connection>>;

class MemoryTransport final : public Transport {
 public:
  explicit MemoryTransport(MemoryFaults faults) : faults_(faults) {}

  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override;
  Result<std::unique_ptr<Connection>> connect(const Endpoint& endpoint,
                                              TimePoint deadline) override;

  void forget(const Endpoint& endpoint) {
    MutexLock lock(mutex_);
    waiting_.erase(to_string(endpoint));
  }

 private:
  const MemoryFaults faults_;
  Mutex mutex_;
  // Shared by the listener, which may go at any time, and a connect that is under way.
  std::map<std::string, std::shared_ptr<ConnectionQueue>> waiting_ GUARDED_BY(mutex_);
  std::uint16_t next_port_ GUARDED_BY(mutex_) = 1;
};

class MemoryListener final : public Listener {
 public:
  MemoryListener(MemoryTransport& transport, std::shared_ptr<ConnectionQueue> waiting,
                 Endpoint endpoint)
      : transport_(transport), waiting_(std::move(waiting)), endpoint_(std::move(endpoint)) {}
  ~MemoryListener() override { shutdown(); }

  Result<std::unique_ptr<Connection>> accept(TimePoint deadline) override {
    auto connection = waiting_->pop(deadline);
    if (connection) return std::move(*connection);
    if (waiting_->closed()) return fail(ErrorCode::kUnavailable, "the listener was shut down");
    return fail(ErrorCode::kDeadlineExceeded, "the time is over");
  }
  void shutdown() override {
    if (waiting_->closed()) return;
    waiting_->close();
    transport_.forget(endpoint_);
  }
  const Endpoint& endpoint() const override { return endpoint_; }

 private:
  MemoryTransport& transport_;
  const std::shared_ptr<ConnectionQueue> waiting_;
  const Endpoint endpoint_;
};

Result<std::unique_ptr<Listener>> MemoryTransport::listen(const Endpoint& endpoint) {
  MutexLock lock(mutex_);
  Endpoint real = endpoint;
  if (real.kind != EndpointKind::kUnix && real.port == 0) real.port = next_port_++;
  auto queue = std::make_shared<ConnectionQueue>(kBacklog);
  if (!waiting_.emplace(to_string(real), queue).second) {
    return fail(ErrorCode::kInvalidArgument, "another listener has " + to_string(real));
  }
  return std::make_unique<MemoryListener>(*this, std::move(queue), std::move(real));
}

Result<std::unique_ptr<Connection>> MemoryTransport::connect(const Endpoint& endpoint,
                                                             TimePoint deadline) {
  const std::string name = to_string(endpoint);
  std::shared_ptr<ConnectionQueue> queue;
  {
    MutexLock lock(mutex_);
    const auto found = waiting_.find(name);
    if (found != waiting_.end()) queue = found->second;
  }
  if (queue == nullptr) return fail(ErrorCode::kUnavailable, "nobody listens on " + name);
  auto there = std::make_shared<FrameQueue>(faults_.queue_frames);
  auto back = std::make_shared<FrameQueue>(faults_.queue_frames);
  auto far = std::make_unique<MemoryConnection>(there, back, faults_, name + " (memory)");
  auto near = std::make_unique<MemoryConnection>(back, there, faults_, name + " (memory)");
  if (!queue->push(std::move(far), deadline)) {
    return fail(queue->closed() ? ErrorCode::kUnavailable : ErrorCode::kDeadlineExceeded,
                "no answer from " + name);
  }
  return near;
}

}  // namespace

std::unique_ptr<Transport> make_memory_transport(MemoryFaults faults) {
  return std::make_unique<MemoryTransport>(faults);
}

}  // namespace salvage::transport
