#pragma once

// What the handshakes of one identity have in common: key, certificate, and the settings that make
// it TLS 1.3 and nothing else. Immutable once made, so any thread may start handshakes with it;
// each keeps it alive.

#include <memory>
#include <string_view>

#include <openssl/ssl.h>

#include "base/result.h"
#include "identity/node_identity.h"
#include "identity/openssl.h"
#include "transport/tls/peer_check.h"
#include "transport/tls/ssl_step.h"

namespace salvage::transport {

// Has this CPU instructions for AES?
bool cpu_computes_aes();

class TlsContext {
 public:
  // For a member's links. The identity has passed check_identity().
  static Result<std::shared_ptr<const TlsContext>> for_member(
      const identity::NodeIdentity& identity, bool fast_aes);
  // For the first contact: shows a certificate of its own making and knows no authority.
  static Result<std::shared_ptr<const TlsContext>> for_joining(
      const identity::NodeIdentity& identity, bool fast_aes);

  // Nullptr in a context for joining.
  EVP_PKEY* authority_key() const { return authority_key_; }

  // A handshake over `bio`, to be driven by SSL_do_handshake(). `check` outlives it.
  Result<SslHandle> start(bool server, BioHandle bio, PeerCheck& check) const;

 private:
  using ContextHandle = std::unique_ptr<SSL_CTX, identity::OpensslFree<&SSL_CTX_free>>;
  TlsContext() = default;
  Result<void> prepare(std::string_view key_pem, std::string_view certificate_pem, bool fast_aes);

  ContextHandle context_;
  identity::CertificateHandle authority_;
  EVP_PKEY* authority_key_ = nullptr;  // part of authority_
};

}  // namespace salvage::transport
