#pragma once

// Which connections there are with which node, so that a removed node loses them all at once.
// Any thread.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/ids.h"
#include "base/mutex.h"
#include "transport/tcp/socket.h"

namespace salvage::transport {

// The socket of one connection. Shared by the connection and, for the moment of a close(), by the
// registry, so that it is never somebody else's descriptor that is shut down.
class LiveLink {
 public:
  enum class End : std::uint8_t { kNone, kShutDown, kRemoved };

  explicit LiveLink(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  int fd() const { return descriptor_.get(); }
  // The first reason stays. Wakes whoever waits for the socket.
  void end(End why);
  End ended() const { return ended_; }

 private:
  const Descriptor descriptor_;
  std::atomic<End> ended_ = End::kNone;
};

class LivePeers {
 public:
  // A link is listed once; remove() takes what add() gave.
  std::uint64_t add(const NodeId& node, const std::shared_ptr<LiveLink>& link);
  void remove(const NodeId& node, std::uint64_t entry);
  void close(const NodeId& node);
  std::size_t count() const;

 private:
  mutable Mutex mutex_;
  std::uint64_t last_entry_ GUARDED_BY(mutex_) = 0;
  std::map<std::pair<NodeId, std::uint64_t>, std::weak_ptr<LiveLink>> links_ GUARDED_BY(mutex_);
};

}  // namespace salvage::transport
