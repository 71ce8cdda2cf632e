#pragma once

// A listening socket whose accept has a deadline and can be woken from another thread. What both
// kinds of listener are made of; thread rule as Listener's (transport.h).

#include <atomic>
#include <memory>

#include "transport/tcp/socket.h"

namespace salvage::transport {

// Peers that were turned away or vanished before one accept gives up on the whole call: a flood of
// them must not keep a thread busy for ever.
inline constexpr int kAcceptTriesMax = 1000;

class Acceptor {
 public:
  static Result<std::unique_ptr<Acceptor>> listen(const Endpoint& endpoint);
  ~Acceptor();  // removes a Unix socket's file
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  Result<Descriptor> accept(TimePoint deadline);
  void shutdown();
  const Endpoint& endpoint() const { return endpoint_; }

 private:
  Acceptor(Descriptor descriptor, Descriptor wake, Endpoint endpoint);

  const Descriptor descriptor_;
  const Descriptor wake_;
  const Endpoint endpoint_;
  std::atomic<bool> shut_down_ = false;
};

}  // namespace salvage::transport
