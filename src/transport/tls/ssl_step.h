#pragma once

// What comes after one call of OpenSSL: it is done, has to wait for the socket, or has failed, with
// our word for the failure. One thread at a time, as the SSL object.

#include <optional>

#include <openssl/ssl.h>

#include "base/result.h"
#include "identity/openssl.h"
#include "transport/tls/socket_bio.h"

namespace salvage::transport {

using SslHandle = std::unique_ptr<SSL, identity::OpensslFree<&SSL_free>>;

struct SslStep {
  bool done = false;
  short wait_events = 0;       // POLLIN or POLLOUT, unless done or failed
  std::optional<Error> error;  // the link is of no use any more
};

// `call_result` is what an SSL call returned that began with an empty list of errors.
SslStep next_step(SSL& ssl, int call_result, const SocketBioState& socket);

}  // namespace salvage::transport
