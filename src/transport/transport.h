#pragma once

// Transport moves frames between processes and knows nothing of what they mean. It is an interface
// so that upper layers are tested in memory (transport/memory_transport.h) and so that links to
// other machines (TLS) can come without a change above. Concrete sockets live in transport/tcp/ and
// only app/ makes them.
//
// Thread rule of a Connection: at most one thread sends and at most one receives, both at once;
// shutdown() from any thread wakes both, which then fail with `unavailable`. Deadlines are absolute
// times of the steady clock.
// Failure: `deadline_exceeded` = not one byte of the frame moved, the connection is as before.
// After anything else it is useless; destroy it. `unavailable` = the peer is gone, or stalled in
// the middle of a frame past the deadline; `corrupt`, `unsupported` = the peer sent something
// wrong.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "transport/endpoint.h"
#include "wire/frame.h"

namespace salvage::transport {

// Borrowed for the duration of send_frame(). Lengths and checksum are filled in by the sender.
struct OutgoingFrame {
  wire::FrameType type = wire::FrameType::kPing;
  PlanEpoch epoch;
  StepId step;
  std::span<const std::byte> body;
  std::span<const std::byte> data;
};

// Reused from frame to frame, so that receiving allocates nothing in the steady state.
struct IncomingFrame {
  wire::FrameHeader header;
  std::vector<std::byte> body;
};

struct ConnectionBytes {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
};

// Who is at the other end of a TLS link, as its certificate proves.
struct PeerIdentity {
  NodeId node;
  bool member = false;       // the authority signed it; false only where somebody is joining
  bool coordinator = false;  // signed as such
  std::string public_key;    // PEM; what a certificate for a joiner is made of
};

class Connection {
 public:
  virtual ~Connection() = default;

  // Nothing for links within this machine, which need none. Lives as long as the connection.
  virtual const PeerIdentity* identity() const { return nullptr; }

  // Returns when the frame is handed to the kernel, which may be before the peer reads it.
  virtual Result<void> send_frame(const OutgoingFrame& frame, TimePoint deadline = kNoDeadline) = 0;

  // First step of receiving: header and body. If header.data_bytes is 0 the frame is complete and
  // verified. Otherwise receive_data() or skip_data() must follow before the next frame, and
  // nothing in the body may take effect before that succeeded: the checksum covers both.
  // `deadline_exceeded` before the first byte of a frame leaves the connection usable.
  virtual Result<void> receive_frame(IncomingFrame& frame, TimePoint deadline = kNoDeadline) = 0;

  // Second step: exactly header.data_bytes bytes, straight into the caller's buffer. A buffer of
  // another size is `invalid_argument`.
  virtual Result<void> receive_data(std::span<std::byte> data,
                                    TimePoint deadline = kNoDeadline) = 0;

  // Reads the data away, for a frame that nobody wants any more (an old plan epoch).
  virtual Result<void> skip_data(TimePoint deadline = kNoDeadline) = 0;

  virtual void shutdown() = 0;

  // For logs: "unix:/run/x.sock pid 71", "tcp:127.0.0.1:40112".
  virtual std::string peer() const = 0;

  virtual ConnectionBytes bytes() const = 0;  // any thread

  // For how many microseconds since the link stands, together, something that we sent was under
  // way. Nothing where that is unknown, as for links within this machine. Any thread.
  virtual std::optional<std::uint64_t> busy_us() const { return std::nullopt; }
  // Lets the peer's busy_us() be right: to be called when a whole frame has come to which nothing
  // is answered. Receiving thread.
  virtual void acknowledge() {}

  // How fast bytes leave from now on, spread evenly by the system; 0: as fast as they can. For
  // links that must leave room for others. Links that can't be paced ignore it.
  virtual void set_pace(std::uint64_t bytes_per_second) { (void)bytes_per_second; }

  // What hello and hello_reply agreed on. Frames are written in the lowest version until then.
  void set_wire_version(std::uint16_t version) { wire_version_ = version; }
  std::uint16_t wire_version() const { return wire_version_; }

 private:
  std::atomic<std::uint16_t> wire_version_ = wire::kWireVersionMin;
};

class Listener {
 public:
  virtual ~Listener() = default;

  // One connection; a peer of another user is dropped without an answer and not counted.
  virtual Result<std::unique_ptr<Connection>> accept(TimePoint deadline = kNoDeadline) = 0;

  // Wakes accept() from any thread; no connection is accepted afterwards.
  virtual void shutdown() = 0;

  // The real one: with the port that the system chose.
  virtual const Endpoint& endpoint() const = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) = 0;
  virtual Result<std::unique_ptr<Connection>> connect(const Endpoint& endpoint,
                                                      TimePoint deadline) = 0;
};

}  // namespace salvage::transport
