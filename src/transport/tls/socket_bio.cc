#include "transport/tls/socket_bio.h"

#include <cerrno>
#include <cstddef>

#include <sys/socket.h>

namespace salvage::transport {
namespace {

using MethodHandle = std::unique_ptr<BIO_METHOD, identity::OpensslFree<&BIO_meth_free>>;

SocketBioState& state_of(BIO* bio) {
  return *static_cast<SocketBioState*>(BIO_get_data(bio));
}

// -1 for the caller, with what OpenSSL has to know: try again, or an error to remember.
int failed(BIO* bio, int retry_flag) {
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  } else {
    state_of(bio).error_number = errno;
  }
  return -1;
}

int write_socket(BIO* bio, const char* bytes, int count) {
  const SocketBioState& state = state_of(bio);
  BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (state.more_follows ? MSG_MORE : 0);
  for (;;) {
    const auto sent = ::send(state.fd, bytes, static_cast<std::size_t>(count), flags);
    if (sent >= 0) return static_cast<int>(sent);
    if (errno != EINTR) return failed(bio, BIO_FLAGS_WRITE);
  }
}

int read_socket(BIO* bio, char* into, int count) {
  SocketBioState& state = state_of(bio);
  BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  for (;;) {
    const auto got = ::recv(state.fd, into, static_cast<std::size_t>(count), MSG_DONTWAIT);
    if (got > 0) return static_cast<int>(got);
    if (got == 0) {
      state.peer_closed = true;
      return 0;
    }
    if (errno != EINTR) return failed(bio, BIO_FLAGS_READ);
  }
}

long control_socket(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;  // Nothing is held back.
  if (command == BIO_CTRL_EOF) return state_of(bio).peer_closed ? 1 : 0;
  return 0;
}

MethodHandle make_method() {
  MethodHandle method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "salvage socket"));
  const bool made = method != nullptr && BIO_meth_set_write(method.get(), write_socket) == 1 &&
                    BIO_meth_set_read(method.get(), read_socket) == 1 &&
                    BIO_meth_set_ctrl(method.get(), control_socket) == 1;
  return made ? std::move(method) : nullptr;
}

}  // namespace

Result<BioHandle> make_socket_bio(SocketBioState& state) {
  static const MethodHandle method = make_method();
  BioHandle bio(method == nullptr ? nullptr : BIO_new(method.get()));
  if (bio == nullptr) {
    return fail(identity::openssl_error(ErrorCode::kResourceExhausted, "memory for a link"));
  }
  BIO_set_data(bio.get(), &state);
  BIO_set_init(bio.get(), 1);
  return bio;
}

}  // namespace salvage::transport
