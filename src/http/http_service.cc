#include "http/http_service.h"

#include <algorithm>
#include <list>
#include <system_error>
#include <thread>

#include <cpp-httplib/httplib.h>
#include <fmt/format.h>

#include "base/ascii.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/mutex.h"
#include "http/http_over_stream.h"

namespace salvage::http {
namespace {

constexpr Logger kLog("http");
// Until another place is free, or a port is usable again that could not be listened on for a while.
constexpr Duration kRoomWait = std::chrono::milliseconds(500);
// At the end: for answers that only have to be written yet.
constexpr Duration kLastWordsTime = std::chrono::milliseconds(500);
// How long a request may be on its way before its connection may have to make room.
constexpr Duration kReadPatience = std::chrono::seconds(5);
// For a client that still sends what nobody reads any more: closing at once would take from it the
// answer that says why.
constexpr Duration kDrainTime = std::chrono::seconds(2);
constexpr std::size_t kHeadBytesMax = std::size_t{1} << 20;  // httplib's own limits come before
// Of this size a body has room whatever others take: with all connections 32 MiB.
constexpr std::size_t kSmallBody = std::size_t{64} << 10;
// Its JSON takes several times as much, which nobody needs once it is answered.
constexpr std::size_t kLargeBody = std::size_t{1} << 20;
// In the header Keep-Alive: requests on one connection aren't counted.
constexpr std::size_t kRequestsShown = 100'000;

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
      done = process_request(stream, "", 0, "", 0, false, closed, as_sent);
      return done;
    });
    return done && !closed;
  }

 private:
  // A body is bytes, whatever its client calls it: `curl -d` says form, which httplib would take
  // apart and bound by 8 KiB. And an answer that is made has no parts to ask for.
  static void as_sent(httplib::Request& request) {
    request.headers.erase("Content-Type");
    request.ranges.clear();
  }
};

bool has_body(const httplib::Request& request) {
  const std::string length = request.get_header_value("Content-Length");
  return request.has_header("Transfer-Encoding") || (!length.empty() && length != "0");
}

bool takes_body(const std::string& method) {
  return method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE";
}

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
    bool unread = false;                  // a body that was refused may still be on its way
    std::optional<TimePoint> idle_since;  // between two requests
    std::optional<TimePoint> reading_since;
    std::size_t body_bytes = 0;
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

  // A connection goes that nobody uses; a moment is waited for there to be one.
  bool make_room() REQUIRES(mutex_) {
    const TimePoint until = deadline_after(now(), kRoomWait);
    while (!closing_ && live_.size() >= options_.connections_max) {
      end_least_useful();
      if (!changed_.wait_until(mutex_, until)) break;
    }
    return !closing_ && live_.size() < options_.connections_max;
  }

  // That which has been idle for longest; if none is, that whose request has been on its way for
  // longest.
  void end_least_useful() REQUIRES(mutex_) {
    if (std::any_of(live_.begin(), live_.end(), [](const Live& live) { return live.leaving; }))
      return;
    Live* least = earliest(&Live::idle_since);
    if (least == nullptr) {
      least = earliest(&Live::reading_since);
      if (least == nullptr || *least->reading_since > now() - kReadPatience) return;
    }
    least->leaving = true;
    least->stream->shutdown();
  }

  Live* earliest(std::optional<TimePoint> Live::*since) REQUIRES(mutex_) {
    Live* found = nullptr;
    for (Live& live : live_) {
      const std::optional<TimePoint>& mine = live.*since;
      if (mine && (found == nullptr || *mine < *(found->*since))) found = &live;
    }
    return found;
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
    if (live->unread) drain(*live->stream);
    if (live->body_bytes >= kLargeBody) give_back_heap();
    MutexLock lock(mutex_);
    bodies_bytes_ -= live->body_bytes;
    live_.erase(live);
    changed_.notify_all();
  }

  void drain(ByteStream& stream) {
    stream.finish();
    const TimePoint until = deadline_after(now(), kDrainTime);
    std::vector<char> nowhere(65536);
    for (std::size_t read = 0; read <= options_.body_bytes_max;) {
      const auto got = stream.read(nowhere, until);
      if (!got || *got == 0) return;
      read += *got;
    }
  }

  bool next_request(Live& live, HttpOverStream& stream) {
    bool was_large = false;
    {
      MutexLock lock(mutex_);
      if (closing_) return false;
      was_large = live.body_bytes >= kLargeBody;
      bodies_bytes_ -= std::exchange(live.body_bytes, 0);
      live.answering = false;
      live.idle_since = now();
      live.reading_since.reset();
      changed_.notify_all();
    }
    if (was_large) give_back_heap();
    const bool any = stream.wait_for_request(deadline_after(now(), options_.idle_time));
    {
      MutexLock lock(mutex_);
      live.idle_since.reset();
      live.reading_since = now();
      stream.begin_request();
      if (!any || closing_ || live.leaving) return false;
    }
    if (stream.may_be_http()) return true;
    refuse_stranger(*live.stream);
    return false;
  }

  // Somebody who speaks TLS, say: there may never be the end of a line to wait for.
  void refuse_stranger(ByteStream& stream) {
    const HttpReply reply = handler_.broken(400, "");
    const std::string text = fmt::format(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
        "Connection: close\r\n\r\n{}",
        reply.content_type, reply.body.size(), reply.body);
    if (stream.write(text, now())) drain(stream);
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
    http_.set_keep_alive_timeout(
        std::chrono::duration_cast<std::chrono::seconds>(options_.idle_time).count());
    http_.set_keep_alive_max_count(kRequestsShown);
    http_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return refuse(request, response) ? httplib::Server::HandlerResponse::Handled
                                           : httplib::Server::HandlerResponse::Unhandled;
        });
    const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      handle(head_of(request), response);
    };
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& reader) {
      HttpRequest mine = head_of(request);
      if (read_body(reader, mine, response)) handle(mine, response);
    };
    http_.Get("/.*", without_body);
    http_.Options("/.*", without_body);
    http_.Post("/.*", with_body);
    http_.Put("/.*", with_body);
    http_.Patch("/.*", with_body);
    http_.Delete("/.*", with_body);
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
    // Where no body is expected httplib would read it past our bounds.
    const bool body = has_body(request);
    if (!reply && body && !takes_body(request.method)) reply = handler_.broken(400, request.target);
    if (!reply) return false;
    current()->unread = body;
    fill(std::move(*reply), response);
    return true;
  }

  // False: the response says why, or will by its status.
  bool read_body(const httplib::ContentReader& reader, HttpRequest& mine,
                 httplib::Response& response) {
    bool has_room = true;
    const auto take = [&](const char* bytes, std::size_t count) {
      if (mine.body.size() + count > options_.body_bytes_max) return false;
      has_room = reserve(mine.body.size() + count);
      if (has_room) mine.body.append(bytes, count);
      return has_room;
    };
    if (reader(take)) return true;
    current()->unread = true;
    if (has_room) {
      if (response.status < 400) response.status = 400;
      current()->last = true;
      return false;
    }
    HttpReply reply = handler_.broken(503, mine.target);
    reply.headers.emplace_back("Retry-After", "5");
    fill(std::move(reply), response);
    return false;
  }

  // Memory for so much of this connection's body, of what all bodies may take. As they come, not as
  // they are announced: who sends nothing takes nothing. A small one always has room.
  bool reserve(std::size_t bytes) {
    MutexLock lock(mutex_);
    Live& live = *current();
    const std::size_t others = bodies_bytes_ - live.body_bytes;
    if (bytes > kSmallBody && others + bytes > options_.bodies_bytes_max) return false;
    bodies_bytes_ = others + bytes;
    live.body_bytes = bytes;
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

  void handle(const HttpRequest& request, httplib::Response& response) {
    Live& live = *current();
    {
      MutexLock lock(mutex_);
      if (closing_) live.gone.request_stop();
      live.reading_since.reset();
      live.answering = true;
      changed_.notify_all();
    }
    fill(handler_.answer(request, live.gone.get_token()), response);
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
  std::size_t bodies_bytes_ GUARDED_BY(mutex_) = 0;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::thread acceptor_;
  std::thread watcher_;
};

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_ignoring_case(key, name)) return value;
  }
  return {};
}

std::unique_ptr<HttpService> HttpService::start(HttpServiceOptions options, HttpHandler& handler) {
  return std::make_unique<HttpServiceOverStreams>(std::move(options), handler);
}

}  // namespace salvage::http
