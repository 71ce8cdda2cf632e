#pragma once

// For the tests of TLS links: a cluster with an authority and members, and peers that speak TCP or
// TLS but not our way. All on loopback; every wait ends.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

#include "identity/authority.h"
#include "transport/secure_transport.h"
#include "transport/tls/tls_transport.h"

namespace salvage::transport {

// Far enough away that only a hang reaches it.
TimePoint soon();
TimePoint in_ms(int milliseconds);

Endpoint loopback();  // any free port

class TestCluster {
 public:
  const identity::Authority& authority() const { return authority_; }
  identity::NodeIdentity member(identity::NodeRole role = identity::NodeRole::kNode) const;
  identity::NodeIdentity coordinator() const { return member(identity::NodeRole::kCoordinator); }

 private:
  const identity::Authority authority_ = *identity::make_authority();
};

identity::NodeIdentity key_only();  // has not joined anything

std::unique_ptr<SecureTransport> transport_of(const identity::NodeIdentity& identity,
                                              TlsOptions options = {});

std::unique_ptr<Listener> listening(SecureTransport& transport);

// Both ends of one link, handshake done and one frame exchanged.
struct TlsLink {
  std::unique_ptr<Connection> near;  // connected
  std::unique_ptr<Connection> far;   // accepted
};
TlsLink link_between(Transport& from, Listener& to);

// What both sides say when `from` connects and the first frames are exchanged. Success has no code.
struct Outcome {
  Error near{ErrorCode::kInternal, "succeeded"};
  Error far{ErrorCode::kInternal, "succeeded"};
};
Outcome outcome_between(Transport& from, const Endpoint& endpoint, Listener& to);

// A TCP connection without any manners. Reads give up after a while.
class RawPeer {
 public:
  explicit RawPeer(const Endpoint& endpoint);
  ~RawPeer();
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  int fd() const { return fd_; }
  void write(std::string_view bytes) const;
  bool closed_by_peer() const;  // reads everything until the end comes or time is over

 private:
  int fd_ = -1;
};

// OpenSSL's own client on a raw connection, with settings that a test chooses.
class RawTls {
 public:
  using Settings = void (*)(SSL_CTX*);
  RawTls(const Endpoint& endpoint, const identity::NodeIdentity* identity, Settings settings);
  ~RawTls();
  RawTls(const RawTls&) = delete;
  RawTls& operator=(const RawTls&) = delete;

  bool handshake() { return SSL_do_handshake(ssl_) == 1; }
  bool read(std::span<std::byte> into);  // all of it
  SSL* ssl() const { return ssl_; }
  int key_updates() const { return key_updates_; }

 private:
  RawPeer peer_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  int key_updates_ = 0;
};

// OpenSSL's own server on an accepted socket: shows the identity's certificate and, beside it, the
// authority's that it is given. Returns what a client says after the handshake.
std::string serve_once(int fd, const identity::NodeIdentity& identity,
                       const std::string& authority_pem);

// The first bytes of a client that speaks TLS 1.3.
std::string client_hello();

}  // namespace salvage::transport
