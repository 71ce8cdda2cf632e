#include "download/download_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <list>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <cpp-httplib/httplib.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "download/download_line.h"
#include "http/http_over_stream.h"

namespace salvage::download {
namespace {

constexpr Logger kLog("download");
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
// Until another place is free, or a port is usable again that could not be listened on for a while.
constexpr Duration kRoomTime = std::chrono::milliseconds(500);
constexpr Duration kRefusalLogTime = std::chrono::seconds(1);

// httplib's parsing and writing of HTTP, with listening and waiting left to us.
class DownloadHttp : public httplib::Server {
 public:
  // httplib ends its answers when its own listening socket is none; it has none here.
  DownloadHttp() { svr_sock_ = 0; }
  ~DownloadHttp() override { svr_sock_ = INVALID_SOCKET; }
  void serve(httplib::Stream& stream) {
    bool closed = false;
    serve_guarded([&] { return process_request(stream, "", 0, "", 0, true, closed, nullptr); });
  }
};

class HttpDownloadServer final : public DownloadServer {
 public:
  explicit HttpDownloadServer(DownloadServerOptions options) : options_(std::move(options)) {
    // Before httplib looks at methods, bodies and paths: there is one answer for all of them.
    http_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          handle(request, response);
          return httplib::Server::HandlerResponse::Handled;
        });
    http_.set_error_handler([](const auto& /*request*/, httplib::Response& response) {
      response.set_content("", "text/plain");
    });
    http_.set_exception_handler([](const auto& /*request*/, auto& response, auto /*why*/) {
      response.status = httplib::StatusCode::InternalServerError_500;
    });
    acceptor_ = std::thread([this] { accept_loop(); });
  }

  ~HttpDownloadServer() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      for (Live& live : live_) live.stream->shutdown();
      changed_.notify_all();
    }
    options_.listener->shutdown();
    acceptor_.join();
    gate_.close();
  }

 private:
  struct Live {
    std::unique_ptr<ByteStream> stream;
    bool transferring = false;
    bool ended = false;       // has to make room
    std::string invite_id;    // of a transfer
    std::uint64_t bytes = 0;  // of it
  };
  using Lives = std::list<Live>;  // in the order of their coming

  void accept_loop() {
    for (;;) {
      auto stream = options_.listener->accept();
      MutexLock lock(mutex_);
      if (closing_) return;
      if (!stream) {  // out of descriptors, most likely: some will come back
        changed_.wait_until(mutex_, deadline_after(now(), kRoomTime));
        continue;
      }
      if (has_room()) admit(std::move(*stream));
    }
  }

  // The oldest connection without a transfer goes. There always is one: fewer may transfer.
  bool has_room() REQUIRES(mutex_) {
    if (live_.size() < kDownloadConnectionsMax) return true;
    const auto waits = [](const Live& live) { return !live.transferring && !live.ended; };
    const auto oldest = std::find_if(live_.begin(), live_.end(), waits);
    if (oldest != live_.end()) {
      oldest->ended = true;
      oldest->stream->shutdown();
      changed_.notify_all();
    }
    const TimePoint until = deadline_after(now(), kRoomTime);
    while (!closing_ && live_.size() >= kDownloadConnectionsMax &&
           changed_.wait_until(mutex_, until)) {
    }
    return !closing_ && live_.size() < kDownloadConnectionsMax;
  }

  void admit(std::unique_ptr<ByteStream> stream) REQUIRES(mutex_) {
    auto pass = gate_.enter();
    if (!pass) return;
    const auto live = live_.insert(live_.end(), Live{std::move(stream), false, false, {}, 0});
    try {
      // Detached, but inside the gate: the destructor waits for it.
      std::thread([this, live, inside = std::move(*pass)] { serve(live); }).detach();
    } catch (const std::system_error&) {  // the system has no thread for a stranger
      live_.erase(live);
    }
  }

  void serve(Lives::iterator live) {
    current() = &*live;
    http::HttpOverStream http(*live->stream, *options_.clock,
                              {.request_bytes_max = kDownloadRequestBytesMax,
                               .request_time = kDownloadRequestTime,
                               .stall_time = kDownloadStallTime,
                               .answer_time = kDownloadTime});
    http_.serve(http);
    current() = nullptr;
    if (!live->invite_id.empty()) {
      kLog.info(
          "served",
          {{"peer", live->stream->peer()}, {"invite", live->invite_id}, {"bytes", live->bytes}});
      if (options_.served) options_.served(live->stream->peer(), live->bytes);
    }
    MutexLock lock(mutex_);
    if (live->transferring) --transfers_;
    live_.erase(live);
    changed_.notify_all();
  }

  // The connection that this thread serves: httplib's handlers don't carry it.
  static Live*& current() {
    static thread_local Live* live = nullptr;
    return live;
  }

  void handle(const httplib::Request& request, httplib::Response& response) {
    Live& live = *current();
    const auto path = parse_download_path(request.path);
    const TimePoint refused_at = deadline_after(now(), kDownloadRefusalTime);
    const bool reads = request.method == "GET" || request.method == "HEAD";
    const bool right = reads && path && request.ranges.size() <= 1 &&
                       options_.may_download(path->invite_id, path->token);
    if (!right) return refuse(live, refused_at, response);
    {
      MutexLock lock(mutex_);
      if (transfers_ >= kDownloadTransfersMax || live.ended || closing_) {
        response.status = httplib::StatusCode::ServiceUnavailable_503;
        response.set_header("Retry-After", "5");
        return;
      }
      ++transfers_;
      live.transferring = true;
    }
    live.invite_id = path->invite_id;
    response.set_content_provider(
        static_cast<std::size_t>(options_.archive->size()), "application/gzip",
        [this, &live](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
          return write_piece(live, offset, length, sink);
        });
  }

  bool write_piece(Live& live, std::size_t offset, std::size_t length, httplib::DataSink& sink) {
    static thread_local std::array<char, kPieceBytes> buffer;
    const std::span<char> piece = std::span(buffer).first(std::min(length, buffer.size()));
    const auto read = options_.archive->read_at(offset, std::as_writable_bytes(piece));
    if (!read) {
      kLog.error("archive_unreadable", {{"why", read.error().message()}});
      return false;
    }
    if (!sink.write(piece.data(), piece.size())) return false;
    live.bytes += piece.size();
    return true;
  }

  void refuse(Live& live, TimePoint until, httplib::Response& response) {
    response.status = httplib::StatusCode::NotFound_404;
    MutexLock lock(mutex_);
    ++refusals_;
    if (now() >= refusals_logged_ + kRefusalLogTime) {
      kLog.warn("refused", {{"peer", live.stream->peer()}, {"count", refusals_}});
      refusals_ = 0;
      refusals_logged_ = now();
    }
    while (!closing_ && !live.ended && changed_.wait_until(mutex_, until)) {
    }
  }

  TimePoint now() const { return options_.clock->now(); }

  const DownloadServerOptions options_;
  DownloadHttp http_;
  Gate gate_;
  Mutex mutex_;
  Condition changed_;
  Lives live_ GUARDED_BY(mutex_);  // a thread's own entry also without: only it writes there
  std::size_t transfers_ GUARDED_BY(mutex_) = 0;
  std::uint64_t refusals_ GUARDED_BY(mutex_) = 0;
  TimePoint refusals_logged_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  std::thread acceptor_;
};

}  // namespace

std::unique_ptr<DownloadServer> DownloadServer::start(DownloadServerOptions options) {
  return std::make_unique<HttpDownloadServer>(std::move(options));
}

}  // namespace salvage::download
