#pragma once

// Streams over TLS 1.3 for clients that have no certificate and know this machine by its key:
// whoever downloads the program before it is a member of anything. The listener shows this node's
// certificate, whose public key's SHA-256 is the node id; a client that pins it can't be misled.
// Whom it serves is for the layer above to find out. Failures and threads as in
// base/byte_stream.h.

#include <cstdint>
#include <memory>

#include "base/byte_stream.h"
#include "identity/node_identity.h"

namespace salvage::transport {

// On all addresses of this machine; port 0 takes any. `invalid_argument` if the port is in use.
Result<std::unique_ptr<StreamListener>> listen_for_streams(const identity::NodeIdentity& identity,
                                                           std::uint16_t port);

}  // namespace salvage::transport
