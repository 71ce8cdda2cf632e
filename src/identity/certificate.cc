// Making and checking certificates as OpenSSL's objects. The check is short on purpose and is not
// OpenSSL's chain builder: a chain has exactly one step here, the authority is known, and nothing
// may depend on a clock.

#include <array>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "identity/fingerprint.h"
#include "identity/openssl.h"

namespace salvage::identity {
namespace {

// Before any machine that runs this and after any that will; ASN.1's last moment.
constexpr const char* kNotBefore = "20000101000000Z";
constexpr const char* kNotAfter = "99991231235959Z";
constexpr std::size_t kSerialBytes = 16;
constexpr long kVersion3 = 2;  // X.509 counts its versions from 0.

tl::unexpected<Error> refused(std::string_view why) {
  ERR_clear_error();
  return fail(ErrorCode::kUnauthenticated, fmt::format("the certificate {}", why));
}

bool add_name(X509_NAME* name, int field, std::string_view text) {
  return X509_NAME_add_entry_by_NID(name, field, MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool set_names(X509& certificate, const CertificatePlan& plan) {
  X509_NAME* subject = X509_get_subject_name(&certificate);
  X509_NAME* issuer = X509_get_issuer_name(&certificate);
  return add_name(subject, NID_commonName, plan.common_name) &&
         add_name(subject, NID_organizationalUnitName, plan.unit) &&
         add_name(issuer, NID_commonName, plan.issuer_name) &&
         add_name(issuer, NID_organizationalUnitName, plan.issuer_unit);
}

bool set_serial(X509& certificate) {
  std::array<unsigned char, kSerialBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return false;
  bytes[0] &= 0x7F;  // positive
  const std::unique_ptr<BIGNUM, OpensslFree<&BN_free>> number(
      BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate)) != nullptr;
}

bool set_validity(X509& certificate) {
  return ASN1_TIME_set_string(X509_getm_notBefore(&certificate), kNotBefore) == 1 &&
         ASN1_TIME_set_string(X509_getm_notAfter(&certificate), kNotAfter) == 1;
}

bool add_extension(X509& certificate, int kind, const char* value) {
  const std::unique_ptr<X509_EXTENSION, OpensslFree<&X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, kind, value));
  return extension != nullptr && X509_add_ext(&certificate, extension.get(), -1) == 1;
}

bool set_extensions(X509& certificate, bool authority) {
  if (authority) {
    return add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(certificate, NID_key_usage, "critical,keyCertSign");
  }
  return add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(certificate, NID_key_usage, "critical,digitalSignature") &&
         add_extension(certificate, NID_ext_key_usage, "serverAuth,clientAuth");
}

// The only entry of its kind in the subject; empty if there is none or more than one.
std::string_view subject_text(X509& certificate, int field) {
  X509_NAME* name = X509_get_subject_name(&certificate);
  const int index = X509_NAME_get_index_by_NID(name, field, -1);
  if (index < 0 || X509_NAME_get_index_by_NID(name, field, index) >= 0) return {};
  const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

// What is common to all of ours: an Ed25519 key under its own name, signed by `signer`.
Result<CertificateFacts> check_named_key(X509& certificate, EVP_PKEY& signer) {
  ASSIGN_OR_RETURN(EVP_PKEY* const key, certified_key(certificate));
  if (X509_verify(&certificate, &signer) != 1) return refused("has another authority's signature");
  ASSIGN_OR_RETURN(std::string digest, key_digest(*key));
  if (subject_text(certificate, NID_commonName) != digest) {
    return refused("names another key than its own");
  }
  CertificateFacts facts;
  facts.node.value = std::move(digest);
  ASSIGN_OR_RETURN(facts.public_key_pem, public_key_to_pem(*key));
  return facts;
}

}  // namespace

Result<CertificateHandle> sign_certificate(const CertificatePlan& plan, EVP_PKEY& subject_key,
                                           EVP_PKEY& issuer_key) {
  CertificateHandle certificate(X509_new());
  const bool made = certificate != nullptr && X509_set_version(certificate.get(), kVersion3) == 1 &&
                    set_serial(*certificate) && set_validity(*certificate) &&
                    set_names(*certificate, plan) &&
                    X509_set_pubkey(certificate.get(), &subject_key) == 1 &&
                    set_extensions(*certificate, plan.authority) &&
                    X509_sign(certificate.get(), &issuer_key, nullptr) > 0;
  if (!made) return fail(openssl_error(ErrorCode::kInternal, "make a certificate"));
  return certificate;
}

Result<EVP_PKEY*> certified_key(X509& certificate) {
  EVP_PKEY* key = X509_get0_pubkey(&certificate);
  if (key == nullptr || EVP_PKEY_get_id(key) != EVP_PKEY_ED25519) {
    return refused("is not of an Ed25519 key");
  }
  return key;
}

Result<CertificateFacts> check_member(X509& certificate, EVP_PKEY& authority_key) {
  ASSIGN_OR_RETURN(CertificateFacts facts, check_named_key(certificate, authority_key));
  const std::string_view unit = subject_text(certificate, NID_organizationalUnitName);
  if (unit != kNodeUnit && unit != kCoordinatorUnit) return refused("is not a member's");
  facts.role = unit == kCoordinatorUnit ? NodeRole::kCoordinator : NodeRole::kNode;
  return facts;
}

Result<CertificateFacts> check_joining(X509& certificate) {
  ASSIGN_OR_RETURN(EVP_PKEY* const key, certified_key(certificate));
  ASSIGN_OR_RETURN(CertificateFacts facts, check_named_key(certificate, *key));
  if (subject_text(certificate, NID_organizationalUnitName) != kJoiningUnit) {
    return refused("is not a joining machine's");
  }
  return facts;
}

Result<std::string> check_authority(X509& certificate) {
  ASSIGN_OR_RETURN(EVP_PKEY* const key, certified_key(certificate));
  ASSIGN_OR_RETURN(CertificateFacts facts, check_named_key(certificate, *key));
  if (subject_text(certificate, NID_organizationalUnitName) != kAuthorityUnit) {
    return refused("is not an authority's");
  }
  return std::move(facts.node.value);
}

}  // namespace salvage::identity
