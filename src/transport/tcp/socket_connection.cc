#include "transport/tcp/socket_connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include <sys/socket.h>

namespace salvage::transport {
namespace {

iovec part(std::span<const std::byte> bytes) {
  // iovec serves reading and writing; sendmsg only reads.
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

// In the middle of a frame the stream has no boundary to come back to.
Error in_mid_frame(Error error) {
  if (error.code() != ErrorCode::kDeadlineExceeded) return error;
  return {ErrorCode::kUnavailable, "the peer stalled in the middle of a frame"};
}

}  // namespace

SocketConnection::SocketConnection(Descriptor descriptor, std::string peer)
    : descriptor_(std::move(descriptor)), peer_(std::move(peer)) {}

SocketConnection::~SocketConnection() = default;

Error SocketConnection::explain(Error error) const {
  if (shut_down_) return {ErrorCode::kUnavailable, peer_ + ": the link was shut down"};
  return std::move(error).within(peer_);
}

Result<void> SocketConnection::send_frame(const OutgoingFrame& frame, TimePoint deadline) {
  ASSIGN_OR_RETURN(const auto header, make_header(frame));
  std::array parts = {part(header), part(frame.body), part(frame.data)};
  Transfer transfer = send_all(descriptor_.get(), parts, deadline);
  bytes_out_ += transfer.bytes_done;
  if (transfer.result) return {};
  Error error = std::move(transfer.result).error();
  return fail(explain(transfer.bytes_done > 0 ? in_mid_frame(std::move(error)) : std::move(error)));
}

Result<void> SocketConnection::receive_rest(std::span<std::byte> into, TimePoint deadline) {
  Transfer transfer = receive_all(descriptor_.get(), into, deadline);
  bytes_in_ += transfer.bytes_done;
  if (transfer.result) return {};
  return fail(explain(in_mid_frame(std::move(transfer.result).error())));
}

Result<void> SocketConnection::receive_frame(IncomingFrame& frame, TimePoint deadline) {
  RETURN_IF_ERROR(assembly_.expect_head());
  wire::FrameHeaderBytes header{};
  Transfer transfer = receive_all(descriptor_.get(), header, deadline);
  bytes_in_ += transfer.bytes_done;
  if (!transfer.result) {
    Error error = std::move(transfer.result).error();
    return fail(
        explain(transfer.bytes_done > 0 ? in_mid_frame(std::move(error)) : std::move(error)));
  }
  auto decoded = wire::decode_header(header);
  if (!decoded) return fail(explain(std::move(decoded).error()));
  frame.header = *decoded;
  frame.body.resize(frame.header.body_bytes);
  RETURN_IF_ERROR(receive_rest(frame.body, deadline));
  if (auto checked = assembly_.head_arrived(frame); !checked) {
    return fail(explain(std::move(checked).error()));
  }
  return {};
}

Result<void> SocketConnection::receive_data(std::span<std::byte> data, TimePoint deadline) {
  RETURN_IF_ERROR(assembly_.expect_data(data.size()));
  RETURN_IF_ERROR(receive_rest(data, deadline));
  if (auto checked = assembly_.data_arrived(data); !checked) {
    return fail(explain(std::move(checked).error()));
  }
  return {};
}

Result<void> SocketConnection::skip_data(TimePoint deadline) {
  RETURN_IF_ERROR(assembly_.expect_data(assembly_.data_bytes()));
  std::array<std::byte, 16384> scratch;
  for (std::uint64_t left = assembly_.data_bytes(); left > 0;) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, scratch.size()));
    RETURN_IF_ERROR(receive_rest(std::span(scratch).first(count), deadline));
    left -= count;
  }
  assembly_.data_skipped();
  return {};
}

void SocketConnection::shutdown() {
  shut_down_ = true;
  ::shutdown(descriptor_.get(), SHUT_RDWR);
}

ConnectionBytes SocketConnection::bytes() const {
  return {bytes_in_, bytes_out_};
}

}  // namespace salvage::transport
