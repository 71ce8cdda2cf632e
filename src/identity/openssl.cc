#include "identity/openssl.h"

#include <cstddef>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/sha256.h"

namespace salvage::identity {
namespace {

using BioHandle = std::unique_ptr<BIO, OpensslFree<&BIO_free>>;

// A key that asks for a password is none of ours; without this OpenSSL would ask at the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*context*/) {
  return -1;
}

Result<BioHandle> open_pem(std::string_view what, std::string_view pem) {
  if (pem.empty()) return fail(ErrorCode::kCorrupt, fmt::format("{} is empty", what));
  if (pem.size() > kPemBytesMax) {
    return fail(ErrorCode::kCorrupt, fmt::format("{} has {} bytes, {} are the most that one has",
                                                 what, pem.size(), kPemBytesMax));
  }
  BioHandle bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (bio == nullptr) return fail(openssl_error(ErrorCode::kInternal, "memory for a key"));
  return bio;
}

template <typename Write>
Result<std::string> written(std::string_view what, const Write& write) {
  const BioHandle bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) {
    return fail(openssl_error(ErrorCode::kInternal, fmt::format("write {}", what)));
  }
  char* bytes = nullptr;
  const auto count = BIO_ctrl(bio.get(), BIO_CTRL_INFO, 0, &bytes);
  return std::string(bytes, static_cast<std::size_t>(count));
}

Result<void> check_ed25519(EVP_PKEY& key, std::string_view what) {
  if (EVP_PKEY_get_id(&key) == EVP_PKEY_ED25519) return {};
  return fail(ErrorCode::kCorrupt, fmt::format("{} is no Ed25519 key", what));
}

}  // namespace

Error openssl_error(ErrorCode code, std::string_view what) {
  const unsigned long last = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = last == 0 ? nullptr : ERR_reason_error_string(last);
  return Error(code, fmt::format("{}: {}", what, reason == nullptr ? "no reason given" : reason));
}

Result<KeyHandle> private_key_from_pem(std::string_view pem) {
  ASSIGN_OR_RETURN(const BioHandle bio, open_pem("the private key", pem));
  KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (key == nullptr) return fail(openssl_error(ErrorCode::kCorrupt, "read the private key"));
  RETURN_IF_ERROR(check_ed25519(*key, "the private key"));
  return key;
}

Result<KeyHandle> public_key_from_pem(std::string_view pem) {
  ASSIGN_OR_RETURN(const BioHandle bio, open_pem("the public key", pem));
  KeyHandle key(PEM_read_bio_PUBKEY(bio.get(), nullptr, no_password, nullptr));
  if (key == nullptr) return fail(openssl_error(ErrorCode::kCorrupt, "read the public key"));
  RETURN_IF_ERROR(check_ed25519(*key, "the public key"));
  return key;
}

Result<CertificateHandle> certificate_from_pem(std::string_view pem) {
  ASSIGN_OR_RETURN(const BioHandle bio, open_pem("the certificate", pem));
  CertificateHandle certificate(PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr));
  if (certificate == nullptr) {
    return fail(openssl_error(ErrorCode::kCorrupt, "read the certificate"));
  }
  return certificate;
}

Result<std::string> private_key_to_pem(EVP_PKEY& key) {
  return written("the private key", [&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, &key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

Result<std::string> public_key_to_pem(EVP_PKEY& key) {
  return written("the public key", [&](BIO* bio) { return PEM_write_bio_PUBKEY(bio, &key); });
}

Result<std::string> certificate_to_pem(X509& certificate) {
  return written("the certificate",
                 [&](BIO* bio) { return PEM_write_bio_X509(bio, &certificate); });
}

Result<KeyHandle> make_key() {
  KeyHandle key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (key == nullptr) return fail(openssl_error(ErrorCode::kInternal, "make an Ed25519 key"));
  return key;
}

Result<std::string> key_digest(EVP_PKEY& key) {
  const int size = i2d_PUBKEY(&key, nullptr);
  if (size <= 0) return fail(openssl_error(ErrorCode::kInternal, "write the public key"));
  std::string der(static_cast<std::size_t>(size), '\0');
  auto* end = reinterpret_cast<unsigned char*>(der.data());
  i2d_PUBKEY(&key, &end);
  Sha256 digest;
  digest.update(der);
  return digest.hex();
}

}  // namespace salvage::identity
