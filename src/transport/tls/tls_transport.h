#pragma once

// The SecureTransport of TLS 1.3 by OpenSSL: both sides authenticated against the cluster's
// authority, no tickets, no resumption, no early data, no clock. Takes tls: endpoints only.
// Listeners and connections may outlive the transport.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "identity/node_identity.h"
#include "transport/secure_transport.h"

namespace salvage::transport {

struct TlsOptions {
  identity::NodeIdentity identity;

  // Is this node a member now? Asked once a handshake for a node that the authority signed, from
  // the thread that runs it. Must return at once and not call the transport. Empty: everybody that
  // the authority signed.
  std::function<bool(const NodeId&)> admits;

  // A peer that hasn't proved itself by then is gone, however large the caller's deadline is:
  // twenty round trips over a bad radio link.
  std::chrono::milliseconds handshake_time_max{10'000};

  // A direction gets new keys after so many bytes. AES-GCM's safe limit is about 24 million full
  // records, 388 GB.
  std::uint64_t rekey_bytes = std::uint64_t{64} << 30;

  // Does the CPU compute AES by itself? Without, ChaCha20 is four times faster. Empty: look.
  std::optional<bool> fast_aes;
};

// `corrupt` if key, certificate and authority don't belong together.
Result<std::unique_ptr<SecureTransport>> make_tls_transport(const TlsOptions& options);

}  // namespace salvage::transport
