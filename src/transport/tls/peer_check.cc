#include "transport/tls/peer_check.h"

#include <utility>

#include <fmt/format.h>

#include "identity/fingerprint.h"
#include "identity/openssl.h"

namespace salvage::transport {
namespace {

// A chain of ours has two certificates; more are somebody's idea of keeping us busy.
constexpr int kChainMax = 4;

// Each of these becomes another alert, which the peer's side turns into words (ssl_step.cc).
constexpr int kForeign = X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT;  // unknown_ca
constexpr int kRemoved = X509_V_ERR_CERT_REVOKED;               // certificate_revoked
constexpr int kMalformed = X509_V_ERR_CERT_REJECTED;            // bad_certificate

}  // namespace

int PeerCheck::examine(X509& certificate, const STACK_OF(X509) * chain) noexcept {
  // No exception may pass through OpenSSL's frames: memory, or one of `admits`.
  try {
    auto proved = prove(certificate, chain);
    if (proved) return X509_V_OK;
    refusal_ = std::move(proved).error();
  } catch (...) {
    refusal_.emplace(ErrorCode::kInternal, "out of memory");  // Short enough to need none itself.
    alert_code_ = X509_V_ERR_OUT_OF_MEM;
  }
  return alert_code_ == X509_V_OK ? kMalformed : alert_code_;
}

Result<void> PeerCheck::refuse(int alert_code, ErrorCode code, std::string why) {
  alert_code_ = alert_code;
  return fail(code, std::move(why));
}

Result<void> PeerCheck::prove(X509& certificate, const STACK_OF(X509) * chain) {
  if (rules_.authority == nullptr) return prove_first_contact(certificate, chain);
  if (rules_.joiners_welcome) {
    if (auto joining = identity::check_joining(certificate)) {
      identity_.node = std::move(joining->node);
      identity_.public_key = std::move(joining->public_key_pem);
      return {};
    }
  }
  return prove_member(certificate, *rules_.authority);
}

Result<void> PeerCheck::prove_member(X509& certificate, EVP_PKEY& authority) {
  auto facts = identity::check_member(certificate, authority);
  if (!facts) {
    return refuse(kForeign, ErrorCode::kUnauthenticated,
                  facts.error().message() +
                      ": that machine is of another cluster, or somebody "
                      "stands in between");
  }
  if (!rules_.wanted.value.empty() && facts->node != rules_.wanted) {
    return refuse(kMalformed, ErrorCode::kUnauthenticated,
                  fmt::format("node {} is there, not node {}", identity::short_form(facts->node),
                              identity::short_form(rules_.wanted)));
  }
  identity_.node = std::move(facts->node);
  identity_.member = true;
  identity_.coordinator = facts->role == identity::NodeRole::kCoordinator;
  identity_.public_key = std::move(facts->public_key_pem);
  if (still_admitted()) return {};
  return refuse(kRemoved, ErrorCode::kPermissionDenied,
                fmt::format("node {} is not, or no longer, a member of this cluster",
                            identity::short_form(identity_.node)));
}

Result<void> PeerCheck::prove_first_contact(X509& certificate, const STACK_OF(X509) * chain) {
  const int count = chain == nullptr ? 0 : sk_X509_num(chain);
  for (int i = 0; i < count && i < kChainMax; ++i) {
    X509& candidate = *sk_X509_value(chain, i);
    const auto id = identity::check_authority(candidate);
    if (!id || *id != rules_.authority_fingerprint) continue;
    ASSIGN_OR_RETURN(EVP_PKEY* const authority, identity::certified_key(candidate));
    RETURN_IF_ERROR(prove_member(certificate, *authority));
    if (!identity_.coordinator) {
      return refuse(kMalformed, ErrorCode::kUnauthenticated,
                    fmt::format("node {} is there, which belongs to the cluster but isn't its "
                                "coordinator",
                                identity::short_form(identity_.node)));
    }
    ASSIGN_OR_RETURN(authority_pem_, identity::certificate_to_pem(candidate));
    return {};
  }
  return refuse(kForeign, ErrorCode::kUnauthenticated,
                fmt::format("what answers there is not the cluster with the fingerprint {}: "
                            "another cluster, or somebody stands in between",
                            identity::short_form(rules_.authority_fingerprint)));
}

bool PeerCheck::still_admitted() const {
  return !identity_.member || !rules_.admits || rules_.admits(identity_.node);
}

}  // namespace salvage::transport
