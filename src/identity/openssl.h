#pragma once

// OpenSSL's keys and certificates behind our errors: for the .cc files of this module and for
// transport/tls/, which meets certificates as objects and not as text. Nothing else includes it.
// Pure functions, any thread; failures as in identity/node_identity.h.

#include <memory>
#include <string>
#include <string_view>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/result.h"
#include "identity/authority.h"

namespace salvage::identity {

template <auto kFree>
struct OpensslFree {
  template <typename Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};
using KeyHandle = std::unique_ptr<EVP_PKEY, OpensslFree<&EVP_PKEY_free>>;
using CertificateHandle = std::unique_ptr<X509, OpensslFree<&X509_free>>;

// `what` and the reason that OpenSSL gives, whose list of errors is empty afterwards.
Error openssl_error(ErrorCode code, std::string_view what);

// Each takes one Ed25519 key or certificate and checks its size before it is read.
Result<KeyHandle> private_key_from_pem(std::string_view pem);
Result<KeyHandle> public_key_from_pem(std::string_view pem);
Result<CertificateHandle> certificate_from_pem(std::string_view pem);

Result<std::string> private_key_to_pem(EVP_PKEY& key);
Result<std::string> public_key_to_pem(EVP_PKEY& key);
Result<std::string> certificate_to_pem(X509& certificate);

Result<KeyHandle> make_key();

// The 64 hex digits by which a key is known: SHA-256 of its SubjectPublicKeyInfo.
Result<std::string> key_digest(EVP_PKEY& key);

// The key that a certificate speaks of; borrowed. `unauthenticated` unless it is an Ed25519 key.
Result<EVP_PKEY*> certified_key(X509& certificate);

// What check_certificate() does, on objects.
Result<CertificateFacts> check_member(X509& certificate, EVP_PKEY& authority_key);
// A certificate of its own making; the facts' role says nothing.
Result<CertificateFacts> check_joining(X509& certificate);
// Is it an authority's certificate of itself? Gives the cluster id.
Result<std::string> check_authority(X509& certificate);

// A certificate to be signed: names, validity and extensions are ours.
struct CertificatePlan {
  std::string_view common_name;
  std::string_view unit;  // one of the words below
  std::string_view issuer_name;
  std::string_view issuer_unit;
  bool authority = false;
};
inline constexpr std::string_view kNodeUnit = "node";
inline constexpr std::string_view kCoordinatorUnit = "coordinator";
inline constexpr std::string_view kAuthorityUnit = "authority";
inline constexpr std::string_view kJoiningUnit = "joining";
Result<CertificateHandle> sign_certificate(const CertificatePlan& plan, EVP_PKEY& subject_key,
                                           EVP_PKEY& issuer_key);

}  // namespace salvage::identity
