#pragma once

// Links between machines: a Transport whose both ends prove who they are (Connection::identity()).
// The interface stands here, so that agents and coordinators can join, renew their identity and
// cut off a removed node; the one implementation is TLS 1.3 (transport/tls/) and made by app/.
//
// A connection that comes in costs nothing until somebody reads from it: accept() never waits for a
// peer, the handshake runs inside the first receive_frame() or send_frame() under its deadline, and
// identity() is there once that has returned. So an acceptor has to bound how many connections
// introduce themselves at the same time (pipeline/door.h).
//
// connect() returns when the listener has proved who it is. What the listener thinks of us arrives
// with the first frame: a refusal fails the first receive_frame().
//
// Failures beyond transport.h's: `unauthenticated` = another authority, another node than expected,
// no certificate; `permission_denied` = not or no longer a member; `unsupported` = not TLS 1.3, or
// not TLS at all; `corrupt` = the stream was tampered with. The message says which side refused.
//
// Threads: everything from any thread.

#include <memory>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "identity/node_identity.h"
#include "transport/transport.h"

namespace salvage::transport {

struct JoinLink {
  std::unique_ptr<Connection> connection;
  std::string authority_pem;  // the certificate with the fingerprint that was asked for
};

class SecureTransport : public Transport {
 public:
  // Like listen(), and besides lets in who has no certificate of the authority but one of his own
  // making: identity()->member is false then, and such a connection may be heard on nothing but
  // its wish to join.
  virtual Result<std::unique_ptr<Listener>> listen_for_joiners(const Endpoint& endpoint) = 0;

  // The first contact of a machine that trusts nobody yet: succeeds only with a coordinator whose
  // authority has this fingerprint (64 hex digits). We present a certificate of our own making.
  virtual Result<JoinLink> connect_for_join(const Endpoint& endpoint,
                                            const std::string& authority_fingerprint,
                                            TimePoint deadline) = 0;

  // For all handshakes from now on, those of listeners that exist already included.
  virtual Result<void> set_identity(const identity::NodeIdentity& identity) = 0;

  // Ends every live connection with this node at once; both its threads fail with `unavailable`.
  // To be called after `admits` has begun to say no, so that none slips in between.
  virtual void close_peer(const NodeId& node) = 0;
};

}  // namespace salvage::transport
