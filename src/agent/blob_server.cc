#include "agent/blob_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/sha256.h"
#include "model/piece_catalogue.h"

namespace salvage::agent {
namespace {

using std::chrono::seconds;

constexpr Logger kLog("blobs");
// Who fetches asks ahead; a link on which nothing is wanted for so long is closed.
constexpr auto kIdleTime = seconds(60);
// One answer of 4 MiB through a link of 1 Mbit/s takes 34 s.
constexpr auto kBlobSendTime = seconds(120);

}  // namespace

void BlobServer::serve(std::unique_ptr<transport::Connection> connection) {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    live_.insert(connection.get());
  }
  pipeline::ControlLink link(*connection);
  Blob blob;
  Result<void> going;
  while (going) {
    const auto request = link.expect<wire::BlobRequest>(deadline_after(clock_.now(), kIdleTime));
    going = request ? answer(*connection, *request, blob) : Result<void>(fail(request.error()));
  }
  MutexLock lock(mutex_);
  live_.erase(connection.get());
  kLog.info("link_ended", {{"peer", connection->peer()}, {"why", going.error().message()}});
}

void BlobServer::stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  for (transport::Connection* connection : live_) connection->shutdown();
}

std::uint64_t BlobServer::bytes_sent() const {
  MutexLock lock(mutex_);
  return bytes_sent_;
}

// A failure ends the connection; what merely isn't here is an answer.
Result<void> BlobServer::answer(transport::Connection& connection, const wire::BlobRequest& request,
                                Blob& blob) {
  RETURN_IF_ERROR(check(request));
  wire::BlobReply reply{.name = request.name, .offset = request.offset};
  std::vector<std::byte> bytes;
  Result<void> read = open(request, blob);
  if (read) {
    reply.total_bytes = blob.source->size();
    if (request.offset > reply.total_bytes || request.length > reply.total_bytes - request.offset) {
      return fail(ErrorCode::kInvalidArgument, "the peer asks for bytes behind the end");
    }
    bytes.resize(request.length);
    read = blob.source->read_at(request.offset, bytes);
  }
  if (!read) {
    bytes.clear();
    blob = {};
    reply.error_code = error_code_name(read.error().code());
    reply.error = read.error().message();
  }
  return send(connection, reply, bytes);
}

Result<void> BlobServer::send(transport::Connection& connection, const wire::BlobReply& reply,
                              std::span<const std::byte> bytes) {
  std::vector<std::byte> body;
  RETURN_IF_ERROR(wire::encode_control(reply, body));
  const std::uint64_t rate = pacer_.rate();
  connection.set_pace(rate);
  RETURN_IF_ERROR(connection.send_frame(
      {.type = wire::BlobReply::kType, .epoch = {}, .step = {}, .body = body, .data = bytes},
      deadline_after(clock_.now(), kBlobSendTime)));
  if (rate == 0) pacer_.sent(bytes.size());
  MutexLock lock(mutex_);
  bytes_sent_ += bytes.size();
  return {};
}

Result<void> BlobServer::check(const wire::BlobRequest& request) const {
  if (!is_digest(request.name)) {
    return fail(ErrorCode::kInvalidArgument, "the peer asks for something that is no digest");
  }
  if (request.length > wire::kBlobBytesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the peer asks for {} bytes at once, the limit is {}", request.length,
                            wire::kBlobBytesMax));
  }
  return {};
}

Result<void> BlobServer::open(const wire::BlobRequest& request, Blob& blob) const {
  if (blob.source && blob.kind == request.kind && blob.name == request.name) return {};
  blob = {.kind = request.kind, .name = request.name, .source = nullptr};
  if (request.kind == "piece") {
    ASSIGN_OR_RETURN(blob.source, store_.reader(PieceDigest{request.name}));
  } else if (request.kind == "skeleton") {
    ASSIGN_OR_RETURN(std::string skeleton, store_.skeleton(ModelId{request.name}));
    blob.source = std::make_unique<MemorySource>(std::move(skeleton));
  } else if (request.kind == "entry") {
    ASSIGN_OR_RETURN(const model::CatalogueEntry entry, store_.entry(ModelId{request.name}));
    blob.source = std::make_unique<MemorySource>(model::encode_entry(entry));
  } else {
    return fail(ErrorCode::kUnsupported, "no such kind of blob");
  }
  return {};
}

}  // namespace salvage::agent
