#include "transport/tcp/stream_connection.h"

#include <algorithm>
#include <array>
#include <utility>

namespace salvage::transport {
namespace {

constexpr std::size_t kSkipBytes = 16384;

// In the middle of a frame the stream has no boundary to come back to.
Error in_mid_frame(Error error) {
  if (error.code() != ErrorCode::kDeadlineExceeded) return error;
  return {ErrorCode::kUnavailable, "the peer stalled in the middle of a frame"};
}

}  // namespace

Error StreamConnection::explain(Error error) const {
  if (const auto why = why_ended()) return {ErrorCode::kUnavailable, peer_ + ": " + *why};
  return std::move(error).within(peer_);
}

Error StreamConnection::explain(Transfer transfer) const {
  Error error = std::move(transfer.result).error();
  return explain(transfer.bytes_done > 0 ? in_mid_frame(std::move(error)) : std::move(error));
}

Result<void> StreamConnection::receive_rest(std::span<std::byte> into, TimePoint deadline) {
  Transfer transfer = read_all(into, deadline);
  bytes_in_ += transfer.bytes_done;
  if (transfer.result) return {};
  return fail(explain(in_mid_frame(std::move(transfer.result).error())));
}

Result<void> StreamConnection::receive_frame(IncomingFrame& frame, TimePoint deadline) {
  RETURN_IF_ERROR(assembly_.expect_head());
  wire::FrameHeaderBytes header{};
  Transfer transfer = read_all(header, deadline);
  bytes_in_ += transfer.bytes_done;
  if (!transfer.result) return fail(explain(std::move(transfer)));
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

Result<void> StreamConnection::receive_data(std::span<std::byte> data, TimePoint deadline) {
  RETURN_IF_ERROR(assembly_.expect_data(data.size()));
  RETURN_IF_ERROR(receive_rest(data, deadline));
  if (auto checked = assembly_.data_arrived(data); !checked) {
    return fail(explain(std::move(checked).error()));
  }
  return {};
}

Result<void> StreamConnection::skip_data(TimePoint deadline) {
  RETURN_IF_ERROR(assembly_.expect_data(assembly_.data_bytes()));
  std::array<std::byte, kSkipBytes> scratch;
  for (std::uint64_t left = assembly_.data_bytes(); left > 0;) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, scratch.size()));
    RETURN_IF_ERROR(receive_rest(std::span(scratch).first(count), deadline));
    left -= count;
  }
  assembly_.data_skipped();
  return {};
}

}  // namespace salvage::transport
