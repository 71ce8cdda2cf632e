#pragma once

// Plain TCP for clients that speak HTTP to this machine: the API's port. Links between machines
// never take this way; who listens on more than loopback decides app/, which then asks for keys.
// Failures and threads as in base/byte_stream.h.

#include <cstdint>
#include <memory>
#include <string>

#include "base/byte_stream.h"

namespace salvage::transport {

// `address` is an IPv4 or IPv6 address of this machine, or 0.0.0.0 or :: for all (:: takes IPv4
// peers, too); port 0 takes any. `invalid_argument` if it is no address, not ours, or the port is
// in use.
Result<std::unique_ptr<StreamListener>> listen_plainly(const std::string& address,
                                                       std::uint16_t port);

}  // namespace salvage::transport
