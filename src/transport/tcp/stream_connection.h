#pragma once

// What connections over a byte stream share, plain or TLS: frames out of bytes, whatever brings
// the bytes. Thread rules and failures are Connection's (transport.h).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "transport/frame_io.h"
#include "transport/tcp/socket.h"
#include "transport/transport.h"

namespace salvage::transport {

class StreamConnection : public Connection {
 public:
  Result<void> receive_frame(IncomingFrame& frame, TimePoint deadline) final;
  Result<void> receive_data(std::span<std::byte> data, TimePoint deadline) final;
  Result<void> skip_data(TimePoint deadline) final;
  std::string peer() const final { return peer_; }
  ConnectionBytes bytes() const final { return {bytes_in_, bytes_out_}; }

 protected:
  explicit StreamConnection(std::string peer) : peer_(std::move(peer)) {}

  // Exactly `into.size()` bytes. Called by the receiving thread only.
  virtual Transfer read_all(std::span<std::byte> into, TimePoint deadline) = 0;

  // Why we ended the link ourselves, if we did: then the socket's own words are beside the point.
  virtual std::optional<std::string> why_ended() const = 0;

  // What a transfer's failure means to the caller of a frame.
  Error explain(Transfer transfer) const;
  Error explain(Error error) const;

  void count_sent(std::uint64_t byte_count) { bytes_out_ += byte_count; }

 private:
  Result<void> receive_rest(std::span<std::byte> into, TimePoint deadline);

  const std::string peer_;
  std::atomic<std::uint64_t> bytes_in_ = 0;
  std::atomic<std::uint64_t> bytes_out_ = 0;
  FrameAssembly assembly_;  // receiver thread only
};

}  // namespace salvage::transport
