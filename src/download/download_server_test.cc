// Goal: who holds a code gets the archive, whole or from any byte on; everybody else gets the same
// nothing, and no crowd keeps the others out. Method: the server behind socket pairs instead of
// TLS, an archive in memory, HTTP written by hand; every wait is one of the system.

#include "download/download_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/unix_socket.h"
#include "http/pair_listener.h"

namespace salvage::download {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kInvite = "0123456789abcdef";
constexpr const char* kToken = "00112233445566778899aabbccddeeff";
std::string archive_text() {
  std::string text;
  while (text.size() < 4'000'000) text += fmt::format("{:08x}", text.size() * 2654435761U);
  return text;
}

std::string path_of(const std::string& token) {
  return fmt::format("/salvage/{}/{}/salvage.tar.gz", kInvite, token);
}

class Download : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log({.level = LogLevel::kInfo,
             .format = LogFormat::kText,
             .sink = [this](std::string_view line) {
               MutexLock lock(log_mutex_);
               log_ += std::string(line) + '\n';
             }});
    server_ = DownloadServer::start({.listener = std::make_unique<http::PairListener>(pairs_),
                                     .archive = &archive_,
                                     .may_download =
                                         [this](std::string_view invite, std::string_view token) {
                                           ++asked_;
                                           return open_ && invite == kInvite && token == kToken;
                                         },
                                     .clock = &clock_,
                                     .served =
                                         [this](const std::string& peer, std::uint64_t bytes) {
                                           MutexLock lock(log_mutex_);
                                           served_ += fmt::format("{} {}\n", peer, bytes);
                                         }});
  }
  void TearDown() override {
    server_.reset();
    set_log({});
  }

  int connect() { return clients_.connect(); }
  static std::string request(const std::string& path, const std::string& more = "",
                             const std::string& method = "GET") {
    return fmt::format("{} {} HTTP/1.1\r\nHost: x\r\n{}\r\n", method, path, more);
  }
  std::string ask(const std::string& text) {
    const int descriptor = connect();
    http::say(descriptor, text);
    return http::hear(descriptor);
  }
  std::string log() {
    MutexLock lock(log_mutex_);
    return log_;
  }

  const std::string bytes_ = archive_text();
  const MemorySource archive_{bytes_};
  const SteadyClock clock_{};
  http::Pairs pairs_;
  http::PairClients clients_{pairs_};
  std::atomic<bool> open_ = true;
  std::atomic<int> asked_ = 0;
  Mutex log_mutex_;
  std::string log_ GUARDED_BY(log_mutex_);
  std::string served_ GUARDED_BY(log_mutex_);
  std::unique_ptr<DownloadServer> server_;
};

TEST_F(Download, a_right_token_gets_the_whole_archive) {
  const std::string answer = ask(request(path_of(kToken)));
  EXPECT_THAT(answer.substr(0, 200), StartsWith("HTTP/1.1 200 OK\r\n"));
  const std::size_t head = answer.find("\r\n\r\n");
  ASSERT_NE(head, std::string::npos);
  EXPECT_TRUE(answer.substr(head + 4) == bytes_);
}

TEST_F(Download, a_cut_download_goes_on_at_its_byte) {
  const std::string answer = ask(request(path_of(kToken), "Range: bytes=3999990-\r\n"));
  EXPECT_THAT(
      answer,
      AllOf(StartsWith("HTTP/1.1 206"), EndsWith(bytes_.substr(3'999'990)),
            HasSubstr(fmt::format("bytes 3999990-{}/{}", bytes_.size() - 1, bytes_.size()))));
  EXPECT_THAT(ask(request(path_of(kToken), "Range: bytes=4000000000-\r\n")),
              StartsWith("HTTP/1.1 416"));
}

TEST_F(Download, everything_else_is_the_same_404_and_never_at_once) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string wrong = ask(request(path_of("ffeeddccbbaa99887766554433221100")));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kDownloadRefusalTime);
  EXPECT_THAT(wrong, AllOf(StartsWith("HTTP/1.1 404"), EndsWith("\r\n\r\n")));
  EXPECT_EQ(ask(request("/")), wrong);
  EXPECT_EQ(ask(request("/salvage/../../../etc/passwd")), wrong);
  EXPECT_EQ(ask(request("/salvage/%2e%2e/%2e%2e/etc/passwd")), wrong);
  EXPECT_EQ(ask(request("/salvage/0123456789abcdef/salvage.tar.gz")), wrong);
  EXPECT_EQ(ask(request(path_of(kToken), "Range: bytes=0-1,5-9\r\n")), wrong);
  EXPECT_EQ(asked_, 1);  // what is no path of ours asks nobody
}

TEST_F(Download, other_methods_and_bodies_get_nothing) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const std::string answer =
        ask(request(path_of(kToken), "Content-Length: 3\r\n", method) + "abc");
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 404"), EndsWith("\r\n\r\n"))) << method;
  }
  EXPECT_THAT(ask(request(path_of(kToken), "", "HEAD")),
              AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\n")));
}

TEST_F(Download, a_code_that_is_used_up_opens_nothing_any_more) {
  EXPECT_THAT(ask(request(path_of(kToken), "Range: bytes=0-0\r\n")), StartsWith("HTTP/1.1 206"));
  open_ = false;
  EXPECT_THAT(ask(request(path_of(kToken), "Range: bytes=0-0\r\n")), StartsWith("HTTP/1.1 404"));
}

TEST_F(Download, garbage_and_endless_heads_end_with_their_connection) {
  EXPECT_THAT(ask(std::string(3000, '\xfe') + "\r\n\r\n"), Not(HasSubstr("200 OK")));
  EXPECT_THAT(ask("GET /" + std::string(100'000, 'a')), Not(HasSubstr("200 OK")));
  std::string heads;
  for (int i = 0; i < 10'000; ++i) heads += fmt::format("X-{}: y\r\n", i);
  EXPECT_THAT(ask(request(path_of(kToken), heads)), Not(HasSubstr("200 OK")));
  EXPECT_THAT(ask(request(path_of(kToken), "X: " + std::string(200'000, 'y') + "\r\n")),
              Not(HasSubstr("200 OK")));
  EXPECT_THAT(ask(request(path_of(kToken), "Range: bytes=0-0\r\n")), StartsWith("HTTP/1.1 206"));
}

TEST_F(Download, a_crowd_that_says_nothing_keeps_nobody_out) {
  for (std::size_t i = 0; i < 4 * kDownloadConnectionsMax; ++i) {
    const int descriptor = connect();
    if (i % 2 == 0) http::say(descriptor, "GET /sal");
  }
  EXPECT_THAT(ask(request(path_of(kToken), "Range: bytes=0-0\r\n")), StartsWith("HTTP/1.1 206"));
  EXPECT_EQ(http::hear(clients_.first()), "");  // who came first had to make room
}

TEST_F(Download, more_transfers_than_there_may_be_are_asked_to_come_back) {
  for (std::size_t i = 0; i < kDownloadTransfersMax; ++i) {
    const int descriptor = connect();
    http::say(descriptor, request(path_of(kToken)));
    EXPECT_THAT(http::hear(descriptor, 30), StartsWith("HTTP/1.1 200"))
        << i;  // and then reads nothing
  }
  EXPECT_THAT(ask(request(path_of(kToken))),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("Retry-After: 5")));
  http::hear(clients_.first());
  // Its place is free once its thread has seen that, which a few tries may come before.
  std::string answer;
  for (int tries = 0; tries < 200 && !answer.starts_with("HTTP/1.1 206"); ++tries) {
    answer = ask(request(path_of(kToken), "Range: bytes=0-0\r\n"));
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 206"));
}

TEST_F(Download, transfers_survive_a_crowd_and_end_with_the_server) {
  const int descriptor = connect();
  http::say(descriptor, request(path_of(kToken)));
  std::string got = http::hear(descriptor, 100'000);
  for (std::size_t i = 0; i < 3 * kDownloadConnectionsMax; ++i) connect();
  got += http::hear(descriptor, 1'000'000);
  EXPECT_EQ(got.size(), 1'100'000);
  server_.reset();
  got += http::hear(descriptor);
  EXPECT_LT(got.size(), bytes_.size());
}

TEST_F(Download, the_log_knows_who_and_how_much_but_no_token) {
  ask(request(path_of(kToken), "Range: bytes=0-99\r\n"));
  ask(request(path_of("ffeeddccbbaa99887766554433221100")));
  server_.reset();
  EXPECT_THAT(
      log(), AllOf(HasSubstr("event=served"), HasSubstr("peer=somebody"), HasSubstr("bytes=100"),
                   HasSubstr("event=refused"), Not(HasSubstr(kToken)), Not(HasSubstr("ffeeddcc"))));
  MutexLock lock(log_mutex_);
  EXPECT_EQ(served_, "somebody 100\n");
}

}  // namespace
}  // namespace salvage::download
