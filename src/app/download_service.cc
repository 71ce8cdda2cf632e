#include "app/download_service.h"

#include <algorithm>
#include <array>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/version.h"
#include "app/words.h"
#include "base/ip_address.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sha256.h"
#include "download/download_line.h"
#include "identity/join_code.h"
#include "transport/tls/tls_stream.h"

namespace salvage::app {
namespace {

constexpr Logger kLog("download");
// More addresses make the line longer than they make it likelier to work.
constexpr std::size_t kPlacesMax = 4;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

Result<std::string> sha256_of(const ByteSource& file) {
  Sha256 digest;
  std::vector<std::byte> buffer(kReadBytes);
  for (std::uint64_t at = 0; at < file.size();) {
    const auto piece = std::span(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), file.size() - at)));
    RETURN_IF_ERROR(file.read_at(at, piece));
    digest.update(piece);
    at += piece.size();
  }
  return digest.hex();
}

std::string place(const identity::JoinAddress& join, std::uint16_t port) {
  const bool v6 = join.address.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", join.address, port) : fmt::format("{}:{}", join.address, port);
}

}  // namespace

std::string download_text(const std::string& line, const std::string& none) {
  if (!line.empty()) return words("download.line", line);
  return none.empty() ? std::string() : words("download.none", none);
}

std::optional<std::filesystem::path> find_portable_archive(const std::filesystem::path& program) {
  const std::string name = fmt::format("salvage-{}-linux-x86_64.tar.gz", kVersion);
  const std::filesystem::path bin = program.parent_path();
  const std::array candidates = {bin / ".." / ".." / name, bin / ".." / name,
                                 bin / ".." / "salvage.tar.gz",
                                 bin / ".." / ".." / "dist" / "out" / name};
  for (const std::filesystem::path& file : candidates) {
    std::error_code error;
    if (std::filesystem::is_regular_file(file, error)) return file.lexically_normal();
  }
  return std::nullopt;
}

DownloadService::DownloadService(DownloadOptions options, const identity::NodeIdentity& identity,
                                 coordinator::Coordinator& coordinator, const Clock& clock)
    : options_(std::move(options)), identity_(identity), coordinator_(coordinator), clock_(clock) {}

DownloadService::~DownloadService() = default;

// Once a run: the file that is open then is the one that belongs to this program, whatever is put
// in its place later.
Result<void> DownloadService::open_archive() {
  if (archive_) return {};
  std::filesystem::path path = options_.archive;
  if (path.empty()) {
    ASSIGN_OR_RETURN(const std::string program, own_executable());
    const auto found = find_portable_archive(program);
    if (!found) {
      return fail(ErrorCode::kNotFound,
                  "there is no archive of the portable directory beside this program; `make dist` "
                  "makes one, and `salvage up --portable FILE` names one");
    }
    path = *found;
  }
  ASSIGN_OR_RETURN(ReadOnlyFile file, ReadOnlyFile::open(path));
  ASSIGN_OR_RETURN(std::string sha256, sha256_of(file));
  kLog.info("archive", {{"file", path.string()}, {"bytes", file.size()}, {"sha256", sha256}});
  archive_.emplace(Archive{std::move(file), std::move(sha256)});
  return {};
}

Result<void> DownloadService::listen() {
  if (server_) return {};
  RETURN_IF_ERROR(open_archive());
  auto listener = transport::listen_for_streams(identity_, options_.port);
  if (!listener) {
    return fail(listener.error().code(),

                fmt::format("the port {} can't be listened on ({}); `salvage up --download-port` "
                            "takes another",
                            options_.port, listener.error().message()));
  }
  port_ = (*listener)->port();
  server_ =
      download::DownloadServer::start({.listener = std::move(*listener),
                                       .archive = &archive_->file,
                                       .may_download =
                                           [this](std::string_view invite, std::string_view token) {
                                             return coordinator_.may_download(invite, token);
                                           },
                                       .clock = &clock_,
                                       .served = options_.served});
  kLog.info("listening", {{"port", port_}});
  return {};
}

Result<std::string> DownloadService::line_for(const coordinator::OpenInvite& invite,
                                              const std::vector<identity::JoinAddress>& addresses) {
  if (options_.port == 0)
    return fail(ErrorCode::kUnsupported, "--download-port 0 turns downloads off");
  RETURN_IF_ERROR(listen());
  download::DownloadOffer offer{
      .server = identity_.id,
      .places = {},
      .path = {.invite_id = invite.invite.id,
               .token = identity::download_token(invite.invite.secret_hash)},
      .archive_sha256 = archive_->sha256,
      .join_code = invite.code};
  for (const identity::JoinAddress& address : addresses) {
    if (offer.places.size() < kPlacesMax) offer.places.push_back(place(address, port_));
  }
  return download::download_line(offer);
}

void DownloadService::offer(coordinator::OpenInvite& invite,
                            const std::vector<identity::JoinAddress>& addresses) {
  MutexLock lock(mutex_);
  auto line = line_for(invite, addresses);
  if (line) {
    invite.download_line = std::move(*line);
  } else {
    invite.no_download = line.error().message();
  }
}

void DownloadService::look() {
  if (options_.port == 0) return;
  std::unique_ptr<download::DownloadServer> ended;  // outside of the lock: it waits for transfers
  MutexLock lock(mutex_);
  if (coordinator_.any_invite_open()) {
    // Said where it matters, with the next code; here it would be said every few seconds.
    (void)listen();
  } else if (server_) {
    kLog.info("closed", {{"port", port_}});
    ended = std::move(server_);
  }
}

}  // namespace salvage::app
