#pragma once

// HTTP on one port, for whoever can answer: connections are accepted, requests read and answers
// written here, with limits on all of it; what they mean is the handler's. Parsing and writing is
// cpp-httplib's.
//
// Limits: so many connections, each with a thread of its own. When all are taken, the one that has
// been idle between two requests for longest has to go, or else one whose request has been on its
// way for some seconds; if there is none, the newcomer is told 503. Heads are bounded by httplib (8
// KiB a line, 100 lines), bodies by `body_bytes_max`, and by `bodies_bytes_max` all together, small
// ones excepted. A request that comes too slowly ends its connection, as does a reader that takes
// nothing for `stall_time`. What is no HTTP from its first byte on is told so at once.
//
// A client that goes away while its answer is being made is noticed within kGoneTime, although
// nothing is written: the answer's StopToken says so.
//
// Threads: one accepts, one watches, one a connection; the handler is called from any of the last,
// several at once. The destructor lets nobody in, stops all answers, and waits for them.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/clock.h"
#include "base/stop.h"

namespace salvage::http {

inline constexpr Duration kGoneTime = std::chrono::milliseconds(100);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string target;  // path and query, as sent
  HttpHeaders headers;
  std::string body;
  std::string peer;  // for logs

  // The first of that name, whatever its case; empty if there is none.
  std::string_view header(std::string_view name) const;
};

// An answer's body as it is written, chunk by chunk.
class HttpBody {
 public:
  virtual ~HttpBody() = default;
  // At once, to the client. False once it has gone.
  virtual bool write(std::string_view bytes) = 0;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;
  std::string body;
  // Instead of a body: called after the head has been written, on the same thread.
  std::function<void(HttpBody&, const StopToken&)> stream;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Looks at a request whose body has not been read: an answer refuses it.
  virtual std::optional<HttpReply> refuse(const HttpRequest& head) = 0;
  // `gone` is requested when nobody waits for the answer any more.
  virtual HttpReply answer(const HttpRequest& request, const StopToken& gone) = 0;
  // What was no request, or too large a one, with the status that HTTP has for it.
  virtual HttpReply broken(int status, std::string_view target) = 0;
};

struct HttpServiceOptions {
  std::unique_ptr<StreamListener> listener;
  const Clock* clock = nullptr;  // outlives the service
  std::size_t connections_max = 512;
  std::size_t body_bytes_max = std::size_t{32} << 20;
  std::size_t bodies_bytes_max = std::size_t{128} << 20;
  Duration request_time = std::chrono::seconds(60);
  Duration idle_time = std::chrono::seconds(75);
  Duration stall_time = std::chrono::seconds(60);
};

class HttpService {
 public:
  // The handler outlives the service.
  static std::unique_ptr<HttpService> start(HttpServiceOptions options, HttpHandler& handler);
  virtual ~HttpService() = default;
  virtual std::size_t connection_count() const = 0;
};

}  // namespace salvage::http
