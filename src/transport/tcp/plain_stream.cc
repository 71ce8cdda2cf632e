#include "transport/tcp/plain_stream.h"

#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

#include "transport/tcp/acceptor.h"
#include "transport/tcp/socket_address.h"

namespace salvage::transport {
namespace {

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(Descriptor descriptor) : descriptor_(std::move(descriptor)) {
    set_keep_alive(descriptor_.get());
    const auto peer = peer_endpoint(descriptor_.get());
    peer_ = peer ? to_string(*peer) : "a peer that has gone";
  }

  Result<std::size_t> read(std::span<char> into, TimePoint deadline) override {
    for (;;) {
      const auto got = ::recv(descriptor_.get(), into.data(), into.size(), MSG_DONTWAIT);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        RETURN_IF_ERROR(wait_for(descriptor_.get(), -1, POLLIN, deadline));
      } else if (errno != EINTR) {
        return fail(system_error("receive", errno));
      }
    }
  }

  Result<void> write(std::span<const char> bytes, TimePoint deadline) override {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    return send_all(descriptor_.get(), std::span(&part, 1), deadline).result;
  }

  void finish() override { ::shutdown(descriptor_.get(), SHUT_WR); }
  void shutdown() override { ::shutdown(descriptor_.get(), SHUT_RDWR); }
  bool gone() const override { return peer_gone(descriptor_.get()); }
  const std::string& peer() const override { return peer_; }

 private:
  const Descriptor descriptor_;
  std::string peer_;
};

class PlainListener final : public StreamListener {
 public:
  explicit PlainListener(std::unique_ptr<Acceptor> acceptor) : acceptor_(std::move(acceptor)) {}

  Result<std::unique_ptr<ByteStream>> accept(TimePoint deadline) override {
    ASSIGN_OR_RETURN(Descriptor descriptor, acceptor_->accept(deadline));
    return std::unique_ptr<ByteStream>(std::make_unique<PlainStream>(std::move(descriptor)));
  }
  void shutdown() override { acceptor_->shutdown(); }
  std::uint16_t port() const override { return acceptor_->endpoint().port; }

 private:
  const std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace

Result<std::unique_ptr<StreamListener>> listen_plainly(const std::string& address,
                                                       std::uint16_t port) {
  Endpoint endpoint;
  endpoint.kind =
      address.find(':') == std::string::npos ? EndpointKind::kTcp4 : EndpointKind::kTcp6;
  endpoint.address = address;
  endpoint.port = port;
  ASSIGN_OR_RETURN(auto acceptor, Acceptor::listen(endpoint));
  return std::unique_ptr<StreamListener>(std::make_unique<PlainListener>(std::move(acceptor)));
}

}  // namespace salvage::transport
