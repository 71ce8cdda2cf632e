#pragma once

// A connection as a plain stream of bytes, and where such come in: for protocols that are not our
// frames, HTTP for one. Between machines it is TLS (transport/tls/tls_stream.h), made by app/.
//
// accept() never waits for a peer: what has to be said before the first byte, a TLS handshake, is
// said inside the first read() or write(), under its deadline. `deadline_exceeded` once that has
// passed; `unavailable` if the peer has gone or the stream was shut down. After a failure the
// stream is of no further use.
//
// Threads: a stream belongs to one, a listener's accept() to one; shutdown() and gone() may come
// from any.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace salvage {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Some bytes, at least one; 0 once the peer has ended its side in good order.
  virtual Result<std::size_t> read(std::span<char> into, TimePoint deadline) = 0;
  // All of them.
  virtual Result<void> write(std::span<const char> bytes, TimePoint deadline) = 0;
  // Says that nothing more will be written; what the peer still sends can be read. A stream that
  // can't end one side alone does nothing.
  virtual void finish() {}
  // Wakes whoever waits in read() or write(), and fails all that comes later.
  virtual void shutdown() = 0;
  // Has the peer ended its side, or vanished, as far as the system knows? From any thread.
  virtual bool gone() const = 0;
  virtual const std::string& peer() const = 0;  // for logs
};

class StreamListener {
 public:
  virtual ~StreamListener() = default;
  virtual Result<std::unique_ptr<ByteStream>> accept(TimePoint deadline = kNoDeadline) = 0;
  virtual void shutdown() = 0;
  virtual std::uint16_t port() const = 0;
};

}  // namespace salvage
