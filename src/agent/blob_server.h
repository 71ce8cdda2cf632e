#pragma once

// Gives pieces, catalogue entries and skeletons out to other members, each over a connection of its
// own. A peer gets exactly the bytes that it asked for, at most kBlobBytesMax at a time, in the
// order of its requests; a request for what isn't here is answered, a malformed one ends the
// connection.
//
// Threads: serve() runs on the caller's thread until the connection ends; any number at once.

#include <cstdint>
#include <memory>
#include <set>
#include <span>

#include "agent/pacer.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "pipeline/control_link.h"
#include "store/piece_store.h"
#include "transport/transport.h"
#include "wire/cluster.h"

namespace salvage::agent {

class BlobServer {
 public:
  BlobServer(const store::PieceStore& store, const Clock& clock, Pacer& pacer)
      : store_(store), clock_(clock), pacer_(pacer) {}

  void serve(std::unique_ptr<transport::Connection> connection) EXCLUDES(mutex_);
  // Ends all connections; serve() returns at once from then on.
  void stop() EXCLUDES(mutex_);
  std::uint64_t bytes_sent() const EXCLUDES(mutex_);

 private:
  struct Blob {  // what was asked for last: the next request usually goes on in it
    std::string kind;
    std::string name;
    std::unique_ptr<ByteSource> source;
  };
  Result<void> answer(transport::Connection& connection, const wire::BlobRequest& request,
                      Blob& blob);
  Result<void> send(transport::Connection& connection, const wire::BlobReply& reply,
                    std::span<const std::byte> bytes);
  Result<void> open(const wire::BlobRequest& request, Blob& blob) const;
  Result<void> check(const wire::BlobRequest& request) const;

  const store::PieceStore& store_;
  const Clock& clock_;
  Pacer& pacer_;
  mutable Mutex mutex_;
  std::set<transport::Connection*> live_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::uint64_t bytes_sent_ GUARDED_BY(mutex_) = 0;
};

}  // namespace salvage::agent
