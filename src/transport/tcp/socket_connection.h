#pragma once

// What both kinds of socket share once they are connected. Made by LocalTransport and its
// listeners, used through Connection (transport.h), whose thread rules and failures hold. The
// descriptor is closed with the object, never before: a late call finds a shut-down socket, not
// somebody else's file.

#include <atomic>
#include <optional>
#include <string>

#include "transport/tcp/stream_connection.h"

namespace salvage::transport {

// A Connection over a connected stream socket. Header, body and data leave in one system call and
// arrive in three: the lengths are known only after each.
class SocketConnection final : public StreamConnection {
 public:
  SocketConnection(Descriptor descriptor, std::string peer);

  Result<void> send_frame(const OutgoingFrame& frame, TimePoint deadline) override;
  void shutdown() override;

 private:
  Transfer read_all(std::span<std::byte> into, TimePoint deadline) override;
  std::optional<std::string> why_ended() const override;

  const Descriptor descriptor_;
  std::atomic<bool> shut_down_ = false;
};

}  // namespace salvage::transport
