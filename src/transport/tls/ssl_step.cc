#include "transport/tls/ssl_step.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <poll.h>

#include "transport/tcp/socket.h"

namespace salvage::transport {
namespace {

struct Meaning {
  int reason;
  ErrorCode code;
  std::string_view text;
};

constexpr std::string_view kNoTls = "what answers there does not speak TLS";
constexpr std::string_view kOldTls = "the other side does not speak TLS 1.3";
constexpr std::string_view kClosed = "the peer closed the connection";
constexpr std::string_view kDamaged = "the stream was damaged on its way, or tampered with";
constexpr std::string_view kRefusedUs = "the other side refused this machine's certificate";

// Alerts of the other side first, then what we found out ourselves.
constexpr Meaning kMeanings[] = {
    {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, ErrorCode::kPermissionDenied,
     "the other side says that this machine is not, or no longer, a member of the cluster; it has "
     "to join with a new code"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, ErrorCode::kUnauthenticated,
     "the other side refused this machine's certificate: it belongs to another cluster"},
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, ErrorCode::kUnauthenticated, kRefusedUs},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, ErrorCode::kUnauthenticated, kRefusedUs},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, ErrorCode::kUnauthenticated, kRefusedUs},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, ErrorCode::kUnauthenticated, kRefusedUs},
    {SSL_R_TLSV1_ALERT_DECRYPT_ERROR, ErrorCode::kUnauthenticated, kRefusedUs},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, ErrorCode::kUnsupported, kOldTls},
    {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, ErrorCode::kUnsupported,
     "the other side shares no cipher or key type with this machine"},
    {SSL_R_SSLV3_ALERT_BAD_RECORD_MAC, ErrorCode::kCorrupt, kDamaged},
    {SSL_R_WRONG_VERSION_NUMBER, ErrorCode::kUnsupported, kNoTls},
    {SSL_R_HTTP_REQUEST, ErrorCode::kUnsupported, kNoTls},
    {SSL_R_HTTPS_PROXY_REQUEST, ErrorCode::kUnsupported, kNoTls},
    {SSL_R_UNSUPPORTED_PROTOCOL, ErrorCode::kUnsupported, kOldTls},
    {SSL_R_NO_SHARED_CIPHER, ErrorCode::kUnsupported, "the other side shares no cipher with us"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, ErrorCode::kUnauthenticated,
     "the other side came without a certificate"},
    {SSL_R_BAD_SIGNATURE, ErrorCode::kUnauthenticated,
     "the other side doesn't have the key of the certificate that it shows"},
    {SSL_R_UNEXPECTED_EOF_WHILE_READING, ErrorCode::kUnavailable, kClosed},
    {SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, ErrorCode::kCorrupt, kDamaged},
};

Error protocol_error(const SSL& ssl) {
  const unsigned long last = ERR_peek_last_error();
  ERR_clear_error();
  const int reason = ERR_GET_REASON(last);
  for (const Meaning& meaning : kMeanings) {
    if (ERR_GET_LIB(last) == ERR_LIB_SSL && meaning.reason == reason) {
      return {meaning.code, std::string(meaning.text)};
    }
  }
  const char* words = last == 0 ? nullptr : ERR_reason_error_string(last);
  return {
      ErrorCode::kCorrupt,
      fmt::format("{}: {}", SSL_is_init_finished(&ssl) != 0 ? kDamaged : "the TLS handshake failed",
                  words == nullptr ? "no reason given" : words)};
}

}  // namespace

SslStep next_step(SSL& ssl, int call_result, const SocketBioState& socket) {
  SslStep step;
  switch (SSL_get_error(&ssl, call_result)) {
    case SSL_ERROR_NONE:
      step.done = true;
      break;
    case SSL_ERROR_WANT_READ:
      step.wait_events = POLLIN;
      break;
    case SSL_ERROR_WANT_WRITE:
      step.wait_events = POLLOUT;
      break;
    case SSL_ERROR_SYSCALL:
      step.error = socket.error_number == 0 ? Error(ErrorCode::kUnavailable, std::string(kClosed))
                                            : system_error("link", socket.error_number);
      break;
    case SSL_ERROR_ZERO_RETURN:
      step.error = Error(ErrorCode::kUnavailable, std::string(kClosed));
      break;
    default:
      step.error = protocol_error(ssl);
      break;
  }
  return step;
}

}  // namespace salvage::transport
