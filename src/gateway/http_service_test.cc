// Goal: requests in, answers out, whatever comes: several on one connection, half ones, slow and
// vanished clients, crowds, large and broken heads. Method: the service behind socket pairs, HTTP
// written by hand, a handler that says what it saw; every wait is one of the system.

#include "gateway/http_service.h"

#include <atomic>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "gateway/pair_listener.h"

namespace salvage::gateway {
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

  SteadyClock clock_;
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

TEST_F(Service, bodies_together_take_so_much_memory_and_no_more) {
  start({.body_bytes_max = 1000, .bodies_bytes_max = 1500});
  const int first = clients_.connect();
  say(first,
      "POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" + std::string(900, 'x'));
  const auto until = std::chrono::steady_clock::now() + kBound;
  while (handler_.waiting == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_THAT(ask(post("/a", std::string(900, 'y'))), HasSubstr("broken 503"));
  EXPECT_THAT(ask(post("/a", "small"), "small"), HasSubstr("POST /a small"));
}

}  // namespace
}  // namespace salvage::gateway
