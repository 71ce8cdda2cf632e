#pragma once

// What both kinds of socket share once they are connected. Made by LocalTransport and its
// listeners, used through Connection (transport.h), whose thread rules and failures hold. The
// descriptor is closed with the object, never before: a late call finds a shut-down socket, not
// somebody else's file.

#include <atomic>
#include <memory>
#include <string>

#include "transport/frame_io.h"
#include "transport/tcp/socket.h"
#include "transport/transport.h"

namespace salvage::transport {

// A Connection over a connected stream socket. Header, body and data leave in one system call and
// arrive in three: the lengths are known only after each.
class SocketConnection final : public Connection {
 public:
  SocketConnection(Descriptor descriptor, std::string peer);
  ~SocketConnection() override;

  Result<void> send_frame(const OutgoingFrame& frame, TimePoint deadline) override;
  Result<void> receive_frame(IncomingFrame& frame, TimePoint deadline) override;
  Result<void> receive_data(std::span<std::byte> data, TimePoint deadline) override;
  Result<void> skip_data(TimePoint deadline) override;
  void shutdown() override;
  std::string peer() const override { return peer_; }
  ConnectionBytes bytes() const override;

 private:
  Result<void> receive_rest(std::span<std::byte> into, TimePoint deadline);
  Error explain(Error error) const;

  const Descriptor descriptor_;
  const std::string peer_;
  std::atomic<bool> shut_down_ = false;
  std::atomic<std::uint64_t> bytes_in_ = 0;
  std::atomic<std::uint64_t> bytes_out_ = 0;
  FrameAssembly assembly_;  // receiver thread only
};

}  // namespace salvage::transport
