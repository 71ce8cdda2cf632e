#include "admin/admin_server.h"

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <utility>

#include <cpp-httplib/httplib.h>

#include "admin/admin_routes.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "base/unix_socket.h"
#include "http/http_stream.h"

namespace salvage::admin {
namespace {

constexpr Logger kLog("admin");
constexpr Duration kRequestTime = std::chrono::seconds(10);  // for the whole of it to be here
// For a reader to take something: the owner's own command, whose pager may wait for the owner.
constexpr Duration kWriteTime = std::chrono::hours(12);
constexpr Duration kWatchTime = std::chrono::milliseconds(200);
// At the end: for answers that only have to be written yet, the one to "leave" among them.
constexpr Duration kGraceTime = std::chrono::milliseconds(500);

// httplib's parsing and writing of HTTP, with listening and waiting left to us.
class Http : public httplib::Server {
 public:
  // Answers in pieces end early once this is taken away.
  void set_listening(int descriptor) { svr_sock_ = descriptor; }
  void serve(httplib::Stream& stream) {
    bool closed = false;
    serve_guarded([&] { return process_request(stream, "", 0, "", 0, true, closed, nullptr); });
  }
};

class HttpAdminServer final : public AdminServer {
 public:
  HttpAdminServer(UnixListener listener, AdminBackend& backend)
      : listener_(std::move(listener)), backend_(backend) {
    const auto handler = [this](const httplib::Request& request, httplib::Response& response) {
      handle(request, response);
    };
    http_.Get("/.*", handler);
    http_.Post("/.*", handler);
    http_.set_payload_max_length(kAdminBodyBytesMax);
    http_.set_exception_handler([](const auto& /*request*/, auto& response, auto /*why*/) {
      response.status = httplib::StatusCode::InternalServerError_500;
      response.set_content(error_line(Error(ErrorCode::kInternal, "the request broke the program")),
                           "application/json");
    });
    http_.set_listening(listener_.descriptor());
    acceptor_ = std::thread([this] { accept_loop(); });
    watcher_ = std::thread([this] { watch_loop(); });
  }

  ~HttpAdminServer() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      for (Live& live : live_) live.stop.request_stop();
      wake_.notify_all();
    }
    listener_.shutdown();
    acceptor_.join();
    {
      MutexLock lock(mutex_);
      const TimePoint until = deadline_after(clock_.now(), kGraceTime);
      while (!live_.empty() && wake_.wait_until(mutex_, until)) {
      }
      for (Live& live : live_) end_socket(live.descriptor);
    }
    watcher_.join();
    gate_.close();
  }

 private:
  struct Live {
    int descriptor = -1;
    StopSource stop;
    std::function<bool()> gone;  // while an answer in lines is written
  };
  using Lives = std::list<Live>;

  void accept_loop() {
    for (;;) {
      const int descriptor = listener_.accept();
      if (descriptor < 0) return;
      receive(descriptor);
    }
  }

  void receive(int descriptor) {
    auto pass = gate_.enter();
    Lives::iterator live;
    {
      MutexLock lock(mutex_);
      if (closing_ || !pass || live_.size() >= kConnectionsMax) {
        static constexpr std::string_view kBusy =
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        write_socket(descriptor, kBusy.data(), kBusy.size());
        close_socket(descriptor);
        return;
      }
      live = live_.insert(live_.end(), Live{descriptor, {}, {}});
    }
    // Detached, but inside the gate: the destructor waits for it.
    std::thread([this, live, inside = std::move(*pass)] { serve(live); }).detach();
  }

  void serve(Lives::iterator live) {
    http::HttpStream stream(live->descriptor, clock_, kRequestTime, kWriteTime);
    current() = &*live;
    http_.serve(stream);
    MutexLock lock(mutex_);
    close_socket(live->descriptor);
    live_.erase(live);
    wake_.notify_all();
  }

  // The connection that this thread serves: httplib's handlers don't carry it.
  static Live*& current() {
    static thread_local Live* live = nullptr;
    return live;
  }

  void handle(const httplib::Request& request, httplib::Response& response) {
    AdminAnswer answer = answer_admin({request.method, request.path, request.body}, backend_);
    if (!answer.lines) {
      response.status = answer.status;
      response.set_content(answer.body, "application/json");
      return;
    }
    // The provider runs on this thread while the request still lives.
    response.set_chunked_content_provider(
        "application/x-ndjson",
        [this, &request, lines = std::move(answer.lines)](std::size_t, httplib::DataSink& sink) {
          write_lines(request, lines, sink);
          return true;
        });
  }

  void write_lines(const httplib::Request& request,
                   const std::function<void(const LineSink&, const StopToken&)>& lines,
                   httplib::DataSink& sink) {
    Live& live = *current();
    set_gone(live, request.is_connection_closed);
    lines(
        [&sink](const std::string& line) {
          const std::string ended = line + '\n';
          return sink.write(ended.data(), ended.size());
        },
        live.stop.get_token());
    set_gone(live, {});
    sink.done();
  }

  void set_gone(Live& live, std::function<bool()> gone) {
    MutexLock lock(mutex_);
    live.gone = std::move(gone);
    wake_.notify_all();
  }

  // A client that has gone reads nothing, but that shows only when something is written: an answer
  // whose prompt takes minutes must end before.
  void watch_loop() {
    MutexLock lock(mutex_);
    while (!closing_) {
      bool any = false;
      for (Live& live : live_) {
        if (!live.gone) continue;
        any = true;
        if (live.gone()) live.stop.request_stop();
      }
      if (any) {
        wake_.wait_until(mutex_, clock_.now() + kWatchTime);
      } else {
        wake_.wait(mutex_);
      }
    }
  }

  const SteadyClock clock_;
  UnixListener listener_;
  AdminBackend& backend_;
  Http http_;
  Gate gate_;
  Mutex mutex_;
  Condition wake_;
  Lives live_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  std::thread acceptor_;
  std::thread watcher_;
};

}  // namespace

Result<std::unique_ptr<AdminServer>> AdminServer::start(const std::filesystem::path& folder,
                                                        AdminBackend& backend) {
  ASSIGN_OR_RETURN(UnixListener listener, UnixListener::listen(folder, kAdminSocket));
  kLog.info("admin_listening", {{"folder", folder.string()}});
  return std::unique_ptr<AdminServer>(
      std::make_unique<HttpAdminServer>(std::move(listener), backend));
}

}  // namespace salvage::admin
