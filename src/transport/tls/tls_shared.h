#pragma once

// What a TLS transport, its listeners and its connections share: who we are now, whom we let in,
// and which links are alive. Any thread.

#include <memory>

#include "base/mutex.h"
#include "transport/tls/live_peers.h"
#include "transport/tls/tls_context.h"
#include "transport/tls/tls_transport.h"

namespace salvage::transport {

class TlsShared {
 public:
  static Result<std::shared_ptr<TlsShared>> make(const TlsOptions& options);

  Result<void> set_identity(const identity::NodeIdentity& identity);

  // `unauthenticated` before this machine has joined.
  Result<std::shared_ptr<const TlsContext>> member_context() const;
  std::shared_ptr<const TlsContext> joining_context() const;

  const TlsOptions& options() const { return options_; }
  LivePeers& live() { return live_; }

 private:
  explicit TlsShared(TlsOptions options) : options_(std::move(options)) {}

  const TlsOptions options_;  // but for the identity, which changes
  LivePeers live_;
  mutable Mutex mutex_;
  std::shared_ptr<const TlsContext> member_ GUARDED_BY(mutex_);
  std::shared_ptr<const TlsContext> joining_ GUARDED_BY(mutex_);
};

}  // namespace salvage::transport
