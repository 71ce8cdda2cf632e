#include "gateway/http_service.h"

#include <algorithm>
#include <charconv>
#include <list>
#include <system_error>
#include <thread>

#include <cpp-httplib/httplib.h>

#include "base/log.h"
#include "base/mutex.h"
#include "gateway/http_over_stream.h"

namespace salvage::gateway {
namespace {

constexpr Logger kLog("http");
// Until another place is free, or a port is usable again that could not be listened on for a while.
constexpr Duration kRoomWait = std::chrono::milliseconds(500);
// At the end: for answers that only have to be written yet.
constexpr Duration kLastWordsTime = std::chrono::milliseconds(500);
constexpr std::size_t kHeadBytesMax = std::size_t{1} << 20;  // httplib's own limits come before

bool same_name(std::string_view a, std::string_view b) {
  const auto same = [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

// httplib's parsing and writing of HTTP, with listening and waiting left to us.
class ServiceHttp : public httplib::Server {
 public:
  // httplib ends its answers when its own listening socket is none; it has none here.
  ServiceHttp() { svr_sock_ = 0; }
  ~ServiceHttp() override { svr_sock_ = INVALID_SOCKET; }
  // One request and its answer. True if another may follow.
  bool serve(httplib::Stream& stream) {
    bool closed = false;
    bool done = false;
    serve_guarded([&] {
      done = process_request(stream, "", 0, "", 0, false, closed, nullptr);
      return done;
    });
    return done && !closed;
  }
};

class ChunkedBody final : public HttpBody {
 public:
  ChunkedBody(httplib::DataSink& sink, StopSource& gone) : sink_(sink), gone_(gone) {}
  bool write(std::string_view bytes) override {
    if (gone_.stop_requested()) return false;
    if (sink_.write(bytes.data(), bytes.size())) return true;
    gone_.request_stop();
    return false;
  }

 private:
  httplib::DataSink& sink_;
  StopSource& gone_;
};

class HttpServiceOverStreams final : public HttpService {
 public:
  HttpServiceOverStreams(HttpServiceOptions options, HttpHandler& handler)
      : options_(std::move(options)), handler_(handler) {
    set_up_routes();
    acceptor_ = std::thread([this] { accept_loop(); });
    watcher_ = std::thread([this] { watch_loop(); });
  }

  ~HttpServiceOverStreams() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      for (Live& live : live_) {
        live.gone.request_stop();
        if (live.idle_since) live.stream->shutdown();
      }
      changed_.notify_all();
    }
    options_.listener->shutdown();
    acceptor_.join();
    {
      MutexLock lock(mutex_);
      const TimePoint until = deadline_after(now(), kLastWordsTime);
      while (!live_.empty() && changed_.wait_until(mutex_, until)) {
      }
      for (Live& live : live_) live.stream->shutdown();
    }
    watcher_.join();
    gate_.close();
  }

  std::size_t connection_count() const override {
    MutexLock lock(mutex_);
    return live_.size();
  }

 private:
  struct Live {
    std::unique_ptr<ByteStream> stream;
    StopSource gone;
    bool leaving = false;                 // it had to make room
    bool last = false;                    // the answer says that the connection ends
    bool answering = false;               // somebody makes an answer: watch whether it is wanted
    std::optional<TimePoint> idle_since;  // between two requests
    std::size_t reserved_bytes = 0;       // for a body
  };
  using Lives = std::list<Live>;

  // ---- connections ----

  void accept_loop() {
    for (;;) {
      auto stream = options_.listener->accept();
      MutexLock lock(mutex_);
      if (closing_) return;
      if (!stream) {  // out of descriptors, most likely: some will come back
        changed_.wait_until(mutex_, deadline_after(now(), kRoomWait));
        continue;
      }
      if (make_room()) {
        admit(std::move(*stream));
      } else {
        static constexpr std::string_view kBusy =
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n"
            "Connection: close\r\n\r\n";
        (void)(*stream)->write(kBusy, now());
      }
    }
  }

  // The connection that has been idle for longest goes; a moment is waited for one to become idle.
  bool make_room() REQUIRES(mutex_) {
    const TimePoint until = deadline_after(now(), kRoomWait);
    while (!closing_ && live_.size() >= options_.connections_max) {
      end_longest_idle();
      if (!changed_.wait_until(mutex_, until)) break;
    }
    return !closing_ && live_.size() < options_.connections_max;
  }

  void end_longest_idle() REQUIRES(mutex_) {
    if (std::any_of(live_.begin(), live_.end(), [](const Live& live) { return live.leaving; }))
      return;
    const auto longer = [](const Live& a, const Live& b) {
      return a.idle_since && (!b.idle_since || *a.idle_since < *b.idle_since);
    };
    const auto oldest = std::min_element(live_.begin(), live_.end(), longer);
    if (oldest == live_.end() || !oldest->idle_since) return;
    oldest->leaving = true;
    oldest->stream->shutdown();
  }

  void admit(std::unique_ptr<ByteStream> stream) REQUIRES(mutex_) {
    auto pass = gate_.enter();
    if (!pass) return;
    const auto live = live_.emplace(live_.end());
    live->stream = std::move(stream);
    try {
      // Detached, but inside the gate: the destructor waits for it.
      std::thread([this, live, inside = std::move(*pass)] { serve(live); }).detach();
    } catch (const std::system_error&) {  // the system has no thread for a stranger
      live_.erase(live);
    }
  }

  void serve(Lives::iterator live) {
    current() = &*live;
    HttpOverStream stream(*live->stream, *options_.clock,
                          {.request_bytes_max = kHeadBytesMax + options_.body_bytes_max,
                           .request_time = options_.request_time,
                           .stall_time = options_.stall_time});
    while (!live->last && next_request(*live, stream) && http_.serve(stream)) {
    }
    current() = nullptr;
    MutexLock lock(mutex_);
    reserved_ -= live->reserved_bytes;
    live_.erase(live);
    changed_.notify_all();
  }

  bool next_request(Live& live, HttpOverStream& stream) {
    {
      MutexLock lock(mutex_);
      if (closing_) return false;
      reserved_ -= std::exchange(live.reserved_bytes, 0);
      live.answering = false;
      live.idle_since = now();
      changed_.notify_all();
    }
    const bool any = stream.wait_for_request(deadline_after(now(), options_.idle_time));
    MutexLock lock(mutex_);
    live.idle_since.reset();
    stream.begin_request();
    return any && !closing_ && !live.leaving;
  }

  // A client that has gone reads nothing, but that shows only when something is written: an answer
  // whose prompt takes minutes must end before.
  void watch_loop() {
    MutexLock lock(mutex_);
    while (!closing_) {
      bool any = false;
      for (Live& live : live_) {
        if (!live.answering) continue;
        any = true;
        if (!live.gone.stop_requested() && live.stream->gone()) live.gone.request_stop();
      }
      if (any) {
        changed_.wait_until(mutex_, deadline_after(now(), kGoneTime));
      } else {
        changed_.wait(mutex_);
      }
    }
  }

  // ---- requests ----

  void set_up_routes() {
    http_.set_payload_max_length(options_.body_bytes_max);
    http_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return refuse(request, response) ? httplib::Server::HandlerResponse::Handled
                                           : httplib::Server::HandlerResponse::Unhandled;
        });
    const auto answer = [this](const httplib::Request& request, httplib::Response& response) {
      handle(request, response);
    };
    http_.Get("/.*", answer);
    http_.Post("/.*", answer);
    http_.Put("/.*", answer);
    http_.Patch("/.*", answer);
    http_.Delete("/.*", answer);
    http_.Options("/.*", answer);
    http_.set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) return httplib::Server::HandlerResponse::Unhandled;
      fill(handler_.broken(response.status, request.target), response);
      return httplib::Server::HandlerResponse::Handled;
    });
    http_.set_exception_handler(
        [this](const httplib::Request& request, httplib::Response& response, auto /*why*/) {
          kLog.error("request_broke", {{"method", request.method}});
          fill(handler_.broken(500, request.target), response);
        });
  }

  bool refuse(const httplib::Request& request, httplib::Response& response) {
    std::optional<HttpReply> reply = handler_.refuse(head_of(request));
    if (!reply && !reserve(request)) {
      reply = handler_.broken(503, request.target);
      reply->headers.emplace_back("Retry-After", "5");
    }
    if (reply) fill(std::move(*reply), response);
    return reply.has_value();
  }

  // Memory for the body, of what all bodies may take.
  bool reserve(const httplib::Request& request) {
    std::size_t bytes = 0;
    if (request.has_header("Transfer-Encoding")) {
      bytes = options_.body_bytes_max;
    } else {
      const std::string length = request.get_header_value("Content-Length");
      (void)std::from_chars(length.data(), length.data() + length.size(), bytes);
      bytes = std::min(bytes, options_.body_bytes_max);
    }
    MutexLock lock(mutex_);
    if (reserved_ + bytes > options_.bodies_bytes_max) return false;
    reserved_ += bytes;
    current()->reserved_bytes = bytes;
    return true;
  }

  static HttpRequest head_of(const httplib::Request& request) {
    HttpRequest head;
    head.method = request.method;
    head.target = request.target;
    head.headers.assign(request.headers.begin(), request.headers.end());
    head.peer = current()->stream->peer();
    return head;
  }

  void handle(const httplib::Request& request, httplib::Response& response) {
    Live& live = *current();
    HttpRequest mine = head_of(request);
    mine.body = request.body;
    {
      MutexLock lock(mutex_);
      if (closing_) live.gone.request_stop();
      live.answering = true;
      changed_.notify_all();
    }
    fill(handler_.answer(mine, live.gone.get_token()), response);
  }

  static void fill(HttpReply reply, httplib::Response& response) {
    response.status = reply.status;
    current()->last = reply.status >= 400;  // httplib's head says so
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
    if (!reply.stream) {
      response.set_content(std::move(reply.body), reply.content_type);
      return;
    }
    // The provider runs on this thread while the connection still lives.
    response.set_chunked_content_provider(
        reply.content_type,
        [stream = std::move(reply.stream)](std::size_t, httplib::DataSink& sink) {
          Live& live = *current();
          ChunkedBody body(sink, live.gone);
          stream(body, live.gone.get_token());
          if (live.gone.stop_requested()) return false;
          sink.done();
          return true;
        });
  }

  // The connection that this thread serves: httplib's handlers don't carry it.
  static Live*& current() {
    static thread_local Live* live = nullptr;
    return live;
  }

  TimePoint now() const { return options_.clock->now(); }

  const HttpServiceOptions options_;
  HttpHandler& handler_;
  ServiceHttp http_;
  Gate gate_;
  mutable Mutex mutex_;
  Condition changed_;
  Lives live_ GUARDED_BY(mutex_);  // a thread's own stream also without: only it reads there
  std::size_t reserved_ GUARDED_BY(mutex_) = 0;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::thread acceptor_;
  std::thread watcher_;
};

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_name(key, name)) return value;
  }
  return {};
}

std::unique_ptr<HttpService> HttpService::start(HttpServiceOptions options, HttpHandler& handler) {
  return std::make_unique<HttpServiceOverStreams>(std::move(options), handler);
}

}  // namespace salvage::gateway
