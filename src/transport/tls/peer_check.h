#pragma once

// What the other end of one handshake has to be, and what its certificate proves. Called by OpenSSL
// in the middle of the handshake, on the thread that runs it. No clock takes part.

#include <functional>
#include <optional>
#include <string>

#include <openssl/x509.h>

#include "base/result.h"
#include "transport/transport.h"

namespace salvage::transport {

struct PeerRules {
  // Borrowed; nullptr: the one in the peer's chain that has this fingerprint, for a first contact.
  EVP_PKEY* authority = nullptr;
  std::string authority_fingerprint;
  bool joiners_welcome = false;  // a certificate of the peer's own making will do
  NodeId wanted;                 // empty: anybody
  // Asked for members only, about 'is it one now?'; empty: yes.
  std::function<bool(const NodeId&)> admits;
};

class PeerCheck {
 public:
  explicit PeerCheck(PeerRules rules) : rules_(std::move(rules)) {}

  // X509_V_OK, or the code that makes OpenSSL send the alert which tells the peer why.
  int examine(X509& certificate, const STACK_OF(X509) * chain) noexcept;

  // After a handshake that succeeded.
  const PeerIdentity& identity() const { return identity_; }
  const std::string& authority_pem() const { return authority_pem_; }

  // Why it failed, if it was for the certificate.
  const std::optional<Error>& refusal() const { return refusal_; }

  // Asked again once the link can be found by close_peer(): a removal may have come in between.
  bool still_admitted() const;

 private:
  Result<void> prove(X509& certificate, const STACK_OF(X509) * chain);
  Result<void> prove_member(X509& certificate, EVP_PKEY& authority);
  Result<void> prove_first_contact(X509& certificate, const STACK_OF(X509) * chain);
  Result<void> refuse(int alert_code, ErrorCode code, std::string why);

  const PeerRules rules_;
  PeerIdentity identity_;
  std::string authority_pem_;
  std::optional<Error> refusal_;
  int alert_code_ = X509_V_OK;
};

}  // namespace salvage::transport
