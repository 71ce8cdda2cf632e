#pragma once

// The cluster authority: an Ed25519 key that only the coordinator has, and the certificates that it
// signs. The SHA-256 of its public key is the cluster id, also called the cluster's fingerprint.
// A certificate says: this key (CN = node id) is a node or the coordinator (OU). Validity stands in
// it from 2000 to 9999 because something must, and is never compared with a clock: who is a member
// is a question to the list of members. Pure functions, any thread; failures as in
// identity/node_identity.h.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "identity/node_identity.h"

namespace salvage::identity {

struct Authority {
  std::string key_pem;  // private
  std::string certificate_pem;
  std::string cluster_id;  // 64 hex digits
};

enum class NodeRole : std::uint8_t { kNode, kCoordinator };

Result<Authority> make_authority();
// From what was stored; both have to fit.
struct AuthorityPem {
  std::string_view key;
  std::string_view certificate;
};
Result<Authority> read_authority(const AuthorityPem& stored);

// The cluster id of an authority's certificate, after checking that it is one.
Result<std::string> cluster_id_of(std::string_view authority_pem);

// The certificate of a member, PEM. `public_key_pem` is what the joiner's handshake proved.
Result<std::string> issue_certificate(const Authority& authority, std::string_view public_key_pem,
                                      NodeRole role);

struct CertificateFacts {
  NodeId node;
  NodeRole role = NodeRole::kNode;
  std::string public_key_pem;
};
// Signed by this authority, an Ed25519 key whose hash is the CN, a role that we know; never the
// clock.
Result<CertificateFacts> check_certificate(std::string_view certificate_pem,
                                           std::string_view authority_pem);

// The same certificate in its short binary form, for where bytes are dear.
Result<std::string> certificate_to_der(std::string_view certificate_pem);
Result<std::string> certificate_from_der(std::string_view der);

}  // namespace salvage::identity
