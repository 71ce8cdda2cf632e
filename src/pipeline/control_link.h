#pragma once

// A connection that carries control messages, with typed sending from any thread and receiving on
// one. The link borrows its connection.

#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace salvage::pipeline {

class ControlLink {
 public:
  explicit ControlLink(transport::Connection& connection) : connection_(connection) {}

  template <typename Message>
  Result<void> send(const Message& message, TimePoint deadline = kNoDeadline, PlanEpoch epoch = {})
      EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(wire::encode_control(message, body_));
    return connection_.send_frame(
        {.type = Message::kType, .epoch = epoch, .step = {}, .body = body_, .data = {}}, deadline);
  }

  // The next frame; its body is valid until the next call. One thread only.
  Result<const transport::IncomingFrame*> receive(TimePoint deadline = kNoDeadline) {
    RETURN_IF_ERROR(connection_.receive_frame(incoming_, deadline));
    if (incoming_.header.data_bytes != 0) RETURN_IF_ERROR(connection_.skip_data(deadline));
    return &incoming_;
  }

  // Receives and expects one kind of message.
  template <typename Message>
  Result<Message> expect(TimePoint deadline) {
    ASSIGN_OR_RETURN(const transport::IncomingFrame* frame, receive(deadline));
    if (frame->header.type != Message::kType) {
      return fail(ErrorCode::kCorrupt, "the peer sent an unexpected frame");
    }
    return wire::decode_control<Message>(frame->body);
  }

  void shutdown() { connection_.shutdown(); }

 private:
  transport::Connection& connection_;
  Mutex mutex_;
  std::vector<std::byte> body_ GUARDED_BY(mutex_);
  transport::IncomingFrame incoming_;  // receiving thread only
};

}  // namespace salvage::pipeline
