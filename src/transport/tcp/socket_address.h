#pragma once

// Endpoints as the system writes them, and back. Inside tcp/ and tls/ only.

#include <sys/socket.h>

#include "base/result.h"
#include "transport/endpoint.h"

namespace salvage::transport {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// `invalid_argument` for an endpoint made by hand that parse_endpoint() would refuse,
// `unavailable` if this machine has no such network interface.
Result<SocketAddress> socket_address(const Endpoint& endpoint);

// The endpoint that a listening socket really has: `wanted` with its port.
Result<Endpoint> local_endpoint(int fd, const Endpoint& wanted);

// Who is at the other end of a connected TCP socket, as a tls: endpoint. An IPv4 peer of a socket
// for both families is shown as one.
Result<Endpoint> peer_endpoint(int fd);

}  // namespace salvage::transport
