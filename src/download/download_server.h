#pragma once

// Hands the portable archive to machines that hold an open invite, and nothing to anybody else: one
// file, held open since the start, under one path (download_line.h). Everything that is not a GET
// of it with a token that the coordinator knows is a 404 after kDownloadRefusalTime, whatever was
// wrong. One range a request, so that a cut download goes on where it stopped.
//
// Strangers reach this port, so all is bounded: connections, the bytes and the time of a request,
// transfers at a time, how long one may stall and how long it may take. When all connections are
// taken, who has waited longest without a transfer has to go: an idle or slow crowd keeps nobody
// out. Accesses are logged without their tokens, refusals at most once a second, with their count.
//
// Threads: one accepts, one a connection. `may_download` is called from any of them and may block.
// The destructor lets nobody in, ends all transfers and waits for them.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/byte_stream.h"
#include "base/clock.h"
#include "base/file.h"

namespace salvage::download {

inline constexpr std::size_t kDownloadConnectionsMax = 64;
inline constexpr std::size_t kDownloadTransfersMax = 16;
inline constexpr std::size_t kDownloadRequestBytesMax = 16384;  // curl sends some 300
inline constexpr Duration kDownloadRequestTime = std::chrono::seconds(10);
inline constexpr Duration kDownloadRefusalTime = std::chrono::milliseconds(300);
inline constexpr Duration kDownloadStallTime = std::chrono::seconds(20);
inline constexpr Duration kDownloadTime = std::chrono::hours(1);  // a code's usual life

struct DownloadServerOptions {
  std::unique_ptr<StreamListener> listener;
  const ByteSource* archive = nullptr;  // outlives the server, as do the next two
  std::function<bool(std::string_view invite_id, std::string_view token)> may_download;
  const Clock* clock = nullptr;
  // A transfer has ended, whole or not: to whom, how many bytes. May be empty.
  std::function<void(const std::string& peer, std::uint64_t bytes)> served;
};

class DownloadServer {
 public:
  static std::unique_ptr<DownloadServer> start(DownloadServerOptions options);
  virtual ~DownloadServer() = default;
};

}  // namespace salvage::download
