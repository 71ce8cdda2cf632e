#include "transport/tls/tls_context.h"

#include <string>
#include <utility>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace salvage::transport {
namespace {

constexpr const char* kAesFirst = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kChachaFirst = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
// A peer's certificates in bytes: ours are two of 450.
constexpr long kPeerChainBytesMax = 8192;
// Where OpenSSL keeps an application's own pointer.
constexpr int kAppData = 0;

// OpenSSL asks this instead of its own chain builder, which would look at a clock.
int verify_peer(X509_STORE_CTX* store, void* /*unused*/) {
  const int ssl_index = SSL_get_ex_data_X509_STORE_CTX_idx();
  const auto* ssl = static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, ssl_index));
  auto* check = static_cast<PeerCheck*>(SSL_get_ex_data(ssl, kAppData));
  X509* certificate = X509_STORE_CTX_get0_cert(store);
  const int code = certificate == nullptr
                       ? X509_V_ERR_UNSPECIFIED
                       : check->examine(*certificate, X509_STORE_CTX_get0_untrusted(store));
  X509_STORE_CTX_set_error(store, code);
  return code == X509_V_OK ? 1 : 0;
}

bool choose_algorithms(SSL_CTX* context, bool fast_aes) {
  // The client's order decides between two fast machines; one without AES instructions has its
  // way on either side.
  if (!fast_aes) SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, fast_aes ? kAesFirst : kChachaFirst) == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519") == 1 &&
         SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1 &&
         SSL_CTX_set1_client_sigalgs_list(context, "ed25519") == 1;
}

// Nothing outlives a connection: no ticket, no session, no early data; so each handshake asks who
// is a member.
bool forbid_resumption(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  return SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1;
}

void demand_certificates(SSL_CTX* context) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(context, verify_peer, nullptr);
  SSL_CTX_set_max_cert_list(context, kPeerChainBytesMax);
  // The chain that we show is the one that we were given.
  SSL_CTX_set_mode(context, SSL_MODE_NO_AUTO_CHAIN);
}

bool show_certificate(SSL_CTX* context, X509* certificate, EVP_PKEY* key) {
  return SSL_CTX_use_certificate(context, certificate) == 1 &&
         SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;
}

Error not_made() {
  return identity::openssl_error(ErrorCode::kInternal, "prepare TLS 1.3");
}

}  // namespace

bool cpu_computes_aes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0;
#elif defined(__aarch64__)
  return (::getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
  return false;
#endif
}

Result<void> TlsContext::prepare(std::string_view key_pem, std::string_view certificate_pem,
                                 bool fast_aes) {
  ASSIGN_OR_RETURN(const identity::KeyHandle key, identity::private_key_from_pem(key_pem));
  ASSIGN_OR_RETURN(const identity::CertificateHandle certificate,
                   identity::certificate_from_pem(certificate_pem));
  context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = context_.get();
  const bool ready = context != nullptr && choose_algorithms(context, fast_aes) &&
                     forbid_resumption(context) &&
                     show_certificate(context, certificate.get(), key.get());
  if (!ready) return fail(not_made());
  demand_certificates(context);
  // Fewer system calls: what has arrived is read at once, not header by header.
  SSL_CTX_set_read_ahead(context, 1);
  return {};
}

Result<std::shared_ptr<const TlsContext>> TlsContext::for_joining(
    const identity::NodeIdentity& identity, bool fast_aes) {
  ASSIGN_OR_RETURN(const std::string certificate,
                   identity::make_joining_certificate(identity.key_pem));
  // Not make_shared: the constructor is private. Shared by its handshakes and their maker.
  std::shared_ptr<TlsContext> made(new TlsContext());
  RETURN_IF_ERROR(made->prepare(identity.key_pem, certificate, fast_aes));
  return made;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::for_member(
    const identity::NodeIdentity& identity, bool fast_aes) {
  std::shared_ptr<TlsContext> made(new TlsContext());
  RETURN_IF_ERROR(made->prepare(identity.key_pem, identity.certificate_pem, fast_aes));
  ASSIGN_OR_RETURN(made->authority_, identity::certificate_from_pem(identity.authority_pem));
  ASSIGN_OR_RETURN(made->authority_key_, identity::certified_key(*made->authority_));
  // The authority's certificate goes along for a peer that knows only its fingerprint.
  if (SSL_CTX_add1_chain_cert(made->context_.get(), made->authority_.get()) != 1) {
    return fail(not_made());
  }
  return made;
}

Result<SslHandle> TlsContext::start(bool server, BioHandle bio, PeerCheck& check) const {
  SslHandle ssl(SSL_new(context_.get()));
  if (ssl == nullptr || SSL_set_ex_data(ssl.get(), kAppData, &check) != 1) {
    return fail(identity::openssl_error(ErrorCode::kResourceExhausted, "memory for a link"));
  }
  BIO* socket = bio.release();
  SSL_set_bio(ssl.get(), socket, socket);  // takes it over
  if (server) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
  }
  return ssl;
}

}  // namespace salvage::transport
