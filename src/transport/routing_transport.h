#pragma once

// One Transport out of two: unix: and tcp: endpoints go to `local`, tls: ones to `tls`. For whoever
// is given endpoints of neighbours that may be on this machine or on another.

#include "transport/transport.h"

namespace salvage::transport {

class RoutingTransport final : public Transport {
 public:
  // Both outlive it. Without `tls` other machines are `unsupported`.
  RoutingTransport(Transport& local, Transport* tls) : local_(local), tls_(tls) {}

  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override;
  Result<std::unique_ptr<Connection>> connect(const Endpoint& endpoint,
                                              TimePoint deadline) override;

 private:
  Result<Transport*> choose(const Endpoint& endpoint) const;
  Transport& local_;
  Transport* tls_;
};

}  // namespace salvage::transport
