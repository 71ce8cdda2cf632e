#include "transport/tcp/socket_connection.h"

#include <array>
#include <utility>

#include <sys/socket.h>

namespace salvage::transport {
namespace {

iovec part(std::span<const std::byte> bytes) {
  // iovec serves reading and writing; sendmsg only reads.
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

SocketConnection::SocketConnection(Descriptor descriptor, std::string peer)
    : StreamConnection(std::move(peer)), descriptor_(std::move(descriptor)) {}

Result<void> SocketConnection::send_frame(const OutgoingFrame& frame, TimePoint deadline) {
  ASSIGN_OR_RETURN(const auto header, make_header(frame, wire_version()));
  std::array parts = {part(header), part(frame.body), part(frame.data)};
  Transfer transfer = send_all(descriptor_.get(), parts, deadline);
  count_sent(transfer.bytes_done);
  if (transfer.result) return {};
  return fail(explain(std::move(transfer)));
}

Transfer SocketConnection::read_all(std::span<std::byte> into, TimePoint deadline) {
  return receive_all(descriptor_.get(), into, deadline);
}

void SocketConnection::shutdown() {
  shut_down_ = true;
  ::shutdown(descriptor_.get(), SHUT_RDWR);
}

std::optional<std::string> SocketConnection::why_ended() const {
  if (!shut_down_) return std::nullopt;
  return "the link was shut down";
}

}  // namespace salvage::transport
