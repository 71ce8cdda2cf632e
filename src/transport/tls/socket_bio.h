#pragma once

// How OpenSSL reaches a socket of ours: never blocking, never a SIGPIPE, and with word to the
// kernel that more follows, so that a frame of several TLS records leaves in full segments.
// OpenSSL's own socket BIO can do none of these. One thread at a time, as the SSL object that uses
// it.

#include <memory>

#include <openssl/bio.h>

#include "base/result.h"
#include "identity/openssl.h"

namespace salvage::transport {

// Outlives the BIO.
struct SocketBioState {
  int fd = -1;
  bool more_follows = false;
  bool peer_closed = false;
  int error_number = 0;  // of the last call that failed for good
};

using BioHandle = std::unique_ptr<BIO, identity::OpensslFree<&BIO_free>>;

Result<BioHandle> make_socket_bio(SocketBioState& state);

}  // namespace salvage::transport
