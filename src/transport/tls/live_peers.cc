#include "transport/tls/live_peers.h"

#include <sys/socket.h>

namespace salvage::transport {

void LiveLink::end(End why) {
  End none = End::kNone;
  ended_.compare_exchange_strong(none, why);
  ::shutdown(descriptor_.get(), SHUT_RDWR);
}

std::uint64_t LivePeers::add(const NodeId& node, const std::shared_ptr<LiveLink>& link) {
  MutexLock lock(mutex_);
  links_.emplace(std::pair(node, ++last_entry_), link);
  return last_entry_;
}

void LivePeers::remove(const NodeId& node, std::uint64_t entry) {
  MutexLock lock(mutex_);
  links_.erase({node, entry});
}

void LivePeers::close(const NodeId& node) {
  MutexLock lock(mutex_);
  for (auto at = links_.lower_bound({node, 0}); at != links_.end() && at->first.first == node;
       ++at) {
    if (const auto link = at->second.lock()) link->end(LiveLink::End::kRemoved);
  }
}

std::size_t LivePeers::count() const {
  MutexLock lock(mutex_);
  return links_.size();
}

}  // namespace salvage::transport
