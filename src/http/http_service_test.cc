// Goal: requests in, answers out, whatever comes: several on one connection, half ones, slow and
// vanished clients, crowds, large and broken heads. Method: the service behind socket pairs, HTTP
// written by hand, a handler that says what it saw; every wait is one of the system.

#include "http/http_service.h"

#include <atomic>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "http/pair_listener.h"

namespace salvage::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr auto kBound = std::chrono::seconds(8);

class EchoHandler final : public HttpHandler {
 public:
  std::optional<HttpReply> refuse(const HttpRequest& head) override {
    if (head.header("x-KEY") != "bad") return std::nullopt;
    return HttpReply{.status = 401, .body = R"({"error":"key"})"};
  }
  HttpReply answer(const HttpRequest& request, const StopToken& gone) override {
    if (request.target == "/throw") throw std::runtime_error("a bug");
    if (request.target == "/wait") return wait(gone);
    if (request.target == "/stream") return stream();
    if (request.target == "/size") return {.body = fmt::format("size {}", request.body.size())};
    return {.body = fmt::format("{} {} {}", request.method, request.target, request.body)};
  }
  HttpReply broken(int status, std::string_view /*target*/) override {
    return {.status = status, .body = fmt::format("broken {}", status)};
  }

  std::atomic<int> waiting = 0;
  std::atomic<bool> noticed = false;

 private:
  HttpReply wait(const StopToken& gone) {
    ++waiting;
    const auto until = std::chrono::steady_clock::now() + kBound;
    while (!gone.stop_requested() && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    noticed = gone.stop_requested();
    return {.body = "waited"};
  }
  static HttpReply stream() {
    HttpReply reply{.content_type = "text/event-stream"};
    reply.stream = [](HttpBody& body, const StopToken&) {
      for (int i = 0; i < 3; ++i) body.write(fmt::format("data: {}\n\n", i));
    };
    return reply;
  }
};

// The real time, and what a test adds to it.
class ShiftedClock final : public Clock {
 public:
  TimePoint now() const override { return real_.now() + shift_.load(); }
  void advance(Duration by) { shift_ = shift_.load() + by; }

 private:
  SteadyClock real_;
  std::atomic<Duration> shift_{};
};

class Service : public ::testing::Test {
 protected:
  void start(HttpServiceOptions options = {}) {
    options.listener = std::make_unique<PairListener>(pairs_);
    options.clock = &clock_;
    service_ = HttpService::start(std::move(options), handler_);
  }
  static std::string post(const std::string& path, const std::string& body,
                          const std::string& more = "") {
    return fmt::format("POST {} HTTP/1.1\r\nHost: x\r\n{}Content-Length: {}\r\n\r\n{}", path, more,
                       body.size(), body);
  }
  std::string ask(const std::string& text, std::string_view until = {}) {
    const int client = clients_.connect();
    say(client, text);
    return hear(client, SIZE_MAX, until);
  }

  ShiftedClock clock_;
  Pairs pairs_;
  PairClients clients_{pairs_};
  EchoHandler handler_;
  std::unique_ptr<HttpService> service_;
};

TEST_F(Service, several_requests_follow_each_other_on_one_connection) {
  start();
  const int client = clients_.connect();
  say(client, post("/a", "one"));
  EXPECT_THAT(hear(client, SIZE_MAX, "POST /a one"), StartsWith("HTTP/1.1 200"));
  say(client, post("/b?q=1", "two") + "GET /c HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string both = hear(client, SIZE_MAX, "GET /c");
  EXPECT_THAT(both, HasSubstr("POST /b?q=1 two"));
  EXPECT_THAT(both, HasSubstr("GET /c "));
  EXPECT_EQ(service_->connection_count(), 1U);
}

TEST_F(Service, a_stream_is_written_chunk_by_chunk_and_ends) {
  start();
  const std::string answer = ask("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n0\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(answer, HasSubstr("data: 0\n\n\r\n"));
  EXPECT_THAT(answer, HasSubstr("data: 2\n\n\r\n"));
  EXPECT_THAT(answer, EndsWith("0\r\n\r\n"));
}

TEST_F(Service, a_refused_request_is_answered_before_its_body_is_there) {
  start();
  const std::string head =
      "POST /a HTTP/1.1\r\nHost: x\r\nX-Key: bad\r\nContent-Length: 1000000\r\n\r\n";
  EXPECT_THAT(ask(head), StartsWith("HTTP/1.1 401"));
}

TEST_F(Service, a_client_that_goes_while_its_answer_is_made_is_noticed) {
  start();
  const int client = clients_.connect();
  say(client, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto until = std::chrono::steady_clock::now() + kBound;
  while (handler_.waiting == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  clients_.close(client);
  while (!handler_.noticed && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(handler_.noticed);
}

TEST_F(Service, the_end_stops_what_is_being_answered) {
  start();
  const int client = clients_.connect();
  say(client, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto until = std::chrono::steady_clock::now() + kBound;
  while (handler_.waiting == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  service_.reset();
  EXPECT_TRUE(handler_.noticed);
}

TEST_F(Service, what_is_no_request_gets_an_answer_or_an_end) {
  start({.body_bytes_max = 1000, .request_time = std::chrono::milliseconds(300)});
  EXPECT_THAT(ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask(post("/a", std::string(2000, 'x'))), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(ask("BREW /a HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(ask("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"),
              StartsWith("HTTP/1.1 4"));
  std::string many = "GET /a HTTP/1.1\r\n";
  for (int i = 0; i < 500; ++i) many += fmt::format("h{}: x\r\n", i);
  EXPECT_THAT(ask(many + "\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(ask("GET /slow HTTP/1.1\r\nHo").find("200 OK"), std::string::npos);
  EXPECT_THAT(ask("GET /throw HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("broken 500"));
  EXPECT_THAT(ask(post("/still", "here"), "here"), HasSubstr("POST /still here"));
}

TEST_F(Service, who_is_idle_makes_room_and_who_is_answered_does_not) {
  start({.connections_max = 2});
  const int busy = clients_.connect();
  say(busy, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  const int idle = clients_.connect();
  say(idle, post("/a", "idle"));
  EXPECT_THAT(hear(idle, SIZE_MAX, "POST /a idle"), HasSubstr("200"));
  EXPECT_THAT(ask(post("/b", "third"), "third"), HasSubstr("POST /b third"));
  EXPECT_EQ(hear(idle), "");  // its connection has ended
  const int busy_too = clients_.connect();
  say(busy_too, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto until = std::chrono::steady_clock::now() + kBound;
  while (handler_.waiting < 2 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_THAT(ask(post("/c", "fourth")), StartsWith("HTTP/1.1 503"));
}

TEST_F(Service, who_never_ends_a_request_makes_room_after_a_while) {
  start({.connections_max = 2});
  const int first = clients_.connect();
  const int second = clients_.connect();
  for (const int client : {first, second}) {
    say(client,
        "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\nhalf");
    EXPECT_THAT(hear(client, SIZE_MAX, "\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  }
  EXPECT_THAT(ask(post("/b", "third")), StartsWith("HTTP/1.1 503")) << "they may still be coming";
  clock_.advance(std::chrono::seconds(30));
  EXPECT_THAT(ask(post("/b", "third"), "third"), HasSubstr("POST /b third"));
  EXPECT_TRUE(socket_gone(first) != socket_gone(second)) << "one had to go";
  clients_.close(first);
  clients_.close(second);
}

TEST_F(Service, a_body_is_bytes_whatever_it_is_called) {
  start();
  // As `curl -d` sends it.
  const std::string form = "Content-Type: application/x-www-form-urlencoded\r\n";
  EXPECT_THAT(ask(post("/size", std::string(50'000, 'x'), form), "size"), HasSubstr("size 50000"));
  const std::string parts = "Content-Type: multipart/form-data; boundary=b\r\n";
  EXPECT_THAT(ask(post("/size", "--b\r\nno parts", parts), "size"), HasSubstr("size 13"));
}

TEST_F(Service, an_answer_has_no_parts) {
  start();
  const std::string answer = ask("GET /a HTTP/1.1\r\nHost: x\r\nRange: bytes=0-2\r\n\r\n", "/a ");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("GET /a "));
}

TEST_F(Service, a_body_comes_in_pieces_too) {
  start();
  EXPECT_THAT(ask("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\none\r\n4\r\n two\r\n0\r\n\r\n",
                  "two"),
              HasSubstr("POST /a one two"));
  EXPECT_THAT(ask("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
              StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask("GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\none\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 400"))
      << "no method that has one";
}

TEST_F(Service, what_is_no_http_is_told_so_at_once) {
  start();
  EXPECT_THAT(ask("\x16\x03\x01\x02\x01\x01\x01\xfc\x03\x03"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(Service, who_is_refused_while_sending_hears_why) {
  start({.body_bytes_max = 1000});
  const std::string large(3'000'000, 'x');
  EXPECT_THAT(ask(post("/a", large, "X-Key: bad\r\n")), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(ask(post("/a", large)), StartsWith("HTTP/1.1 413"));
}

TEST_F(Service, a_body_that_is_only_announced_takes_no_memory) {
  start({.body_bytes_max = 1'000'000, .bodies_bytes_max = 1'000'000});
  // One that asks for a WebSocket besides was counted twice once, and never given back.
  const std::string upgrade =
      "GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
      "Content-Length: 900000\r\n\r\n";
  (void)ask(upgrade);
  for (int i = 0; i < 3; ++i) {
    const int client = clients_.connect();
    say(client, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n");
  }
  EXPECT_THAT(ask(post("/size", std::string(900'000, 'x')), "size"), HasSubstr("size 900000"));
}

TEST_F(Service, bodies_together_take_so_much_memory_and_no_more) {
  start({.body_bytes_max = 100'000, .bodies_bytes_max = 150'000});
  const int first = clients_.connect();
  const std::string large(90'000, 'x');
  say(first, "POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n" + large);
  const auto until = std::chrono::steady_clock::now() + kBound;
  while (handler_.waiting == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_THAT(ask(post("/a", large)), HasSubstr("broken 503"));
  EXPECT_THAT(ask(post("/size", std::string(60'000, 'y')), "size"), HasSubstr("size 60000"))
      << "small ones always have room";
}

}  // namespace
}  // namespace salvage::http
