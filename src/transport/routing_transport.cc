#include "transport/routing_transport.h"

namespace salvage::transport {

Result<Transport*> RoutingTransport::choose(const Endpoint& endpoint) const {
  if (!is_tls(endpoint.kind)) return &local_;
  if (tls_ != nullptr) return tls_;
  return fail(ErrorCode::kUnsupported,
              to_string(endpoint) + ": this process has no links to other machines");
}

Result<std::unique_ptr<Listener>> RoutingTransport::listen(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(Transport* const chosen, choose(endpoint));
  return chosen->listen(endpoint);
}

Result<std::unique_ptr<Connection>> RoutingTransport::connect(const Endpoint& endpoint,
                                                              TimePoint deadline) {
  ASSIGN_OR_RETURN(Transport* const chosen, choose(endpoint));
  return chosen->connect(endpoint, deadline);
}

}  // namespace salvage::transport
