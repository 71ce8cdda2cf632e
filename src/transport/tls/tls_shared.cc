#include "transport/tls/tls_shared.h"

#include <utility>

namespace salvage::transport {

Result<std::shared_ptr<TlsShared>> TlsShared::make(const TlsOptions& options) {
  TlsOptions kept = options;
  kept.identity = {};  // Its key has no business here beyond the contexts.
  // Shared by the transport, its listeners and its connections.
  std::shared_ptr<TlsShared> shared(new TlsShared(std::move(kept)));
  RETURN_IF_ERROR(shared->set_identity(options.identity));
  return shared;
}

Result<void> TlsShared::set_identity(const identity::NodeIdentity& identity) {
  RETURN_IF_ERROR(identity::check_identity(identity));
  const bool fast_aes = options_.fast_aes.value_or(cpu_computes_aes());
  ASSIGN_OR_RETURN(auto joining, TlsContext::for_joining(identity, fast_aes));
  std::shared_ptr<const TlsContext> member;
  if (!identity.certificate_pem.empty()) {
    ASSIGN_OR_RETURN(member, TlsContext::for_member(identity, fast_aes));
  }
  MutexLock lock(mutex_);
  joining_ = std::move(joining);
  member_ = std::move(member);
  return {};
}

Result<std::shared_ptr<const TlsContext>> TlsShared::member_context() const {
  MutexLock lock(mutex_);
  if (member_ == nullptr) {
    return fail(ErrorCode::kUnauthenticated, "this machine has not joined a cluster");
  }
  return member_;
}

std::shared_ptr<const TlsContext> TlsShared::joining_context() const {
  MutexLock lock(mutex_);
  return joining_;
}

}  // namespace salvage::transport
