#include "identity/authority.h"

#include <utility>

#include <fmt/format.h>

#include "identity/openssl.h"

namespace salvage::identity {

Result<Authority> make_authority() {
  ASSIGN_OR_RETURN(const KeyHandle key, make_key());
  Authority authority;
  ASSIGN_OR_RETURN(authority.cluster_id, key_digest(*key));
  const CertificatePlan plan = {.common_name = authority.cluster_id,
                                .unit = kAuthorityUnit,
                                .issuer_name = authority.cluster_id,
                                .issuer_unit = kAuthorityUnit,
                                .authority = true};
  ASSIGN_OR_RETURN(const CertificateHandle certificate, sign_certificate(plan, *key, *key));
  ASSIGN_OR_RETURN(authority.key_pem, private_key_to_pem(*key));
  ASSIGN_OR_RETURN(authority.certificate_pem, certificate_to_pem(*certificate));
  return authority;
}

Result<Authority> read_authority(const AuthorityPem& stored) {
  ASSIGN_OR_RETURN(const KeyHandle key, private_key_from_pem(stored.key));
  Authority authority;
  ASSIGN_OR_RETURN(authority.cluster_id, cluster_id_of(stored.certificate));
  ASSIGN_OR_RETURN(const std::string digest, key_digest(*key));
  if (digest != authority.cluster_id) {
    return fail(ErrorCode::kCorrupt,
                "the stored authority's certificate is not that of the stored key");
  }
  authority.key_pem = stored.key;
  authority.certificate_pem = stored.certificate;
  return authority;
}

Result<std::string> cluster_id_of(std::string_view authority_pem) {
  ASSIGN_OR_RETURN(const CertificateHandle certificate, certificate_from_pem(authority_pem));
  return check_authority(*certificate);
}

Result<std::string> issue_certificate(const Authority& authority, std::string_view public_key_pem,
                                      NodeRole role) {
  ASSIGN_OR_RETURN(const KeyHandle subject, public_key_from_pem(public_key_pem));
  ASSIGN_OR_RETURN(const KeyHandle issuer, private_key_from_pem(authority.key_pem));
  ASSIGN_OR_RETURN(const std::string id, key_digest(*subject));
  const CertificatePlan plan = {
      .common_name = id,
      .unit = role == NodeRole::kCoordinator ? kCoordinatorUnit : kNodeUnit,
      .issuer_name = authority.cluster_id,
      .issuer_unit = kAuthorityUnit};
  ASSIGN_OR_RETURN(const CertificateHandle certificate, sign_certificate(plan, *subject, *issuer));
  return certificate_to_pem(*certificate);
}

Result<CertificateFacts> check_certificate(std::string_view certificate_pem,
                                           std::string_view authority_pem) {
  ASSIGN_OR_RETURN(const CertificateHandle authority, certificate_from_pem(authority_pem));
  RETURN_IF_ERROR(check_authority(*authority));
  ASSIGN_OR_RETURN(EVP_PKEY* const authority_key, certified_key(*authority));
  ASSIGN_OR_RETURN(const CertificateHandle certificate, certificate_from_pem(certificate_pem));
  return check_member(*certificate, *authority_key);
}

Result<std::string> certificate_to_der(std::string_view certificate_pem) {
  ASSIGN_OR_RETURN(const CertificateHandle certificate, certificate_from_pem(certificate_pem));
  const int size = i2d_X509(certificate.get(), nullptr);
  if (size <= 0) return fail(openssl_error(ErrorCode::kInternal, "write the certificate"));
  std::string der(static_cast<std::size_t>(size), '\0');
  auto* end = reinterpret_cast<unsigned char*>(der.data());
  i2d_X509(certificate.get(), &end);
  return der;
}

Result<std::string> certificate_from_der(std::string_view der) {
  if (der.empty() || der.size() > kPemBytesMax) {
    return fail(ErrorCode::kCorrupt, fmt::format("a certificate of {} bytes", der.size()));
  }
  const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
  const auto* end = begin;
  const CertificateHandle certificate(d2i_X509(nullptr, &end, static_cast<long>(der.size())));
  if (certificate == nullptr) {
    return fail(openssl_error(ErrorCode::kCorrupt, "read the certificate"));
  }
  if (end != begin + der.size()) {
    return fail(ErrorCode::kCorrupt, "something follows the certificate");
  }
  return certificate_to_pem(*certificate);
}

}  // namespace salvage::identity
