#pragma once

// The coordinator's hand for machines that have nothing: while an invite is open, it serves the
// portable archive (download/download_server.h), and gives each new code the line that fetches it.
// Without an archive, or with a port that is taken, everything else works and the line's place says
// what to do. Threads: everything from any thread. What is passed in outlives it; the destructor
// ends all transfers.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "download/download_server.h"
#include "identity/node_identity.h"

namespace salvage::app {

inline constexpr std::uint16_t kDownloadPort = 7419;

struct DownloadOptions {
  std::uint16_t port = kDownloadPort;  // 0: serve nothing
  std::filesystem::path archive;       // empty: the one that belongs to this program, if there is
  // Who has fetched how much of it. From any thread; may be empty.
  std::function<void(const std::string& peer, std::uint64_t bytes)> served;
};

// The archive of the portable directory that `program` (bin/salvage) is part of: beside the
// directory or inside it, or where `make dist` leaves it for a program in a build folder.
std::optional<std::filesystem::path> find_portable_archive(const std::filesystem::path& program);

// For people: an invite's download_line, or its no_download.
std::string download_text(const std::string& line, const std::string& none);

class DownloadService {
 public:
  DownloadService(DownloadOptions options, const identity::NodeIdentity& identity,
                  coordinator::Coordinator& coordinator, const Clock& clock);
  ~DownloadService();
  DownloadService(const DownloadService&) = delete;
  DownloadService& operator=(const DownloadService&) = delete;

  // Listens if need be, and puts the line for this code, or why there is none, into the invite.
  // `addresses` of this machine, best first.
  void offer(coordinator::OpenInvite& invite, const std::vector<identity::JoinAddress>& addresses)
      EXCLUDES(mutex_);
  // Listens exactly as long as an invite is open; to be called now and then.
  void look() EXCLUDES(mutex_);

 private:
  struct Archive {
    ReadOnlyFile file;
    std::string sha256;
  };
  Result<void> open_archive() REQUIRES(mutex_);
  Result<void> listen() REQUIRES(mutex_);
  Result<std::string> line_for(const coordinator::OpenInvite& invite,
                               const std::vector<identity::JoinAddress>& addresses)
      REQUIRES(mutex_);

  const DownloadOptions options_;
  const identity::NodeIdentity identity_;
  coordinator::Coordinator& coordinator_;
  const Clock& clock_;
  Mutex mutex_;
  std::optional<Archive> archive_ GUARDED_BY(mutex_);
  std::uint16_t port_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<download::DownloadServer> server_ GUARDED_BY(mutex_);
};

}  // namespace salvage::app
