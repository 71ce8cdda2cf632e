#include "identity/node_identity.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "identity/authority.h"
#include "identity/openssl.h"

namespace salvage::identity {
namespace {

constexpr std::size_t kSignatureBytes = 64;  // Ed25519

using DigestHandle = std::unique_ptr<EVP_MD_CTX, OpensslFree<&EVP_MD_CTX_free>>;

// What is really signed: no purpose is the beginning of another one's, because of the zero.
std::string signed_bytes(const Message& message) {
  std::string bytes = "salvage ";
  bytes.append(message.purpose).push_back('\0');
  bytes.append(message.bytes);
  return bytes;
}

const unsigned char* raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Result<NodeKey> describe(EVP_PKEY& key) {
  NodeKey node;
  ASSIGN_OR_RETURN(node.key_pem, private_key_to_pem(key));
  ASSIGN_OR_RETURN(node.public_key_pem, public_key_to_pem(key));
  ASSIGN_OR_RETURN(node.id.value, key_digest(key));
  return node;
}

}  // namespace

Result<NodeKey> make_node_key() {
  ASSIGN_OR_RETURN(const KeyHandle key, make_key());
  return describe(*key);
}

Result<NodeKey> read_node_key(std::string_view key_pem) {
  ASSIGN_OR_RETURN(const KeyHandle key, private_key_from_pem(key_pem));
  return describe(*key);
}

Result<NodeId> node_id_of(std::string_view public_key_pem) {
  ASSIGN_OR_RETURN(const KeyHandle key, public_key_from_pem(public_key_pem));
  NodeId id;
  ASSIGN_OR_RETURN(id.value, key_digest(*key));
  return id;
}

Result<std::string> make_joining_certificate(std::string_view key_pem) {
  ASSIGN_OR_RETURN(const KeyHandle key, private_key_from_pem(key_pem));
  ASSIGN_OR_RETURN(const std::string id, key_digest(*key));
  const CertificatePlan plan = {
      .common_name = id, .unit = kJoiningUnit, .issuer_name = id, .issuer_unit = kJoiningUnit};
  ASSIGN_OR_RETURN(const CertificateHandle certificate, sign_certificate(plan, *key, *key));
  return certificate_to_pem(*certificate);
}

Result<void> check_identity(const NodeIdentity& identity) {
  ASSIGN_OR_RETURN(const NodeKey key, read_node_key(identity.key_pem));
  if (key.id != identity.id) {
    return fail(ErrorCode::kCorrupt, "the stored node id is not that of the stored key");
  }
  if (identity.certificate_pem.empty() && identity.authority_pem.empty()) return {};
  ASSIGN_OR_RETURN(const CertificateFacts facts,
                   check_certificate(identity.certificate_pem, identity.authority_pem));
  if (facts.node != identity.id) {
    return fail(ErrorCode::kCorrupt, "the stored certificate is not that of the stored key");
  }
  return {};
}

Result<std::string> sign_message(std::string_view key_pem, const Message& message) {
  ASSIGN_OR_RETURN(const KeyHandle key, private_key_from_pem(key_pem));
  const std::string bytes = signed_bytes(message);
  const DigestHandle context(EVP_MD_CTX_new());
  std::array<unsigned char, kSignatureBytes> signature{};
  std::size_t size = signature.size();
  const bool made =
      context != nullptr &&
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      EVP_DigestSign(context.get(), signature.data(), &size, raw(bytes), bytes.size()) == 1;
  if (!made) return fail(openssl_error(ErrorCode::kInternal, "sign a message"));
  return std::string(reinterpret_cast<const char*>(signature.data()), size);
}

Result<void> check_signature(std::string_view public_key_pem, const Message& message,
                             std::string_view signature) {
  ASSIGN_OR_RETURN(const KeyHandle key, public_key_from_pem(public_key_pem));
  const std::string bytes = signed_bytes(message);
  const DigestHandle context(EVP_MD_CTX_new());
  const bool ready = context != nullptr &&
                     EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1;
  if (!ready) return fail(openssl_error(ErrorCode::kInternal, "check a signature"));
  const bool right = signature.size() == kSignatureBytes &&
                     EVP_DigestVerify(context.get(), raw(signature), signature.size(), raw(bytes),
                                      bytes.size()) == 1;
  if (right) return {};
  return fail(openssl_error(ErrorCode::kUnauthenticated, "the signature is not of this key"));
}

}  // namespace salvage::identity
