// A stage worker and the wrong visitors: who connects and says nothing, says nonsense, or knows
// another secret gets nowhere, and the worker still takes the coordinator that comes after them.
// The worker is the built program; the visitors speak through plain sockets.

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/worker_link.h"
#include "agent/worker_secret.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/random.h"
#include "pipeline/control_link.h"
#include "pipeline/handshake.h"
#include "transport/endpoint.h"
#include "transport/tcp/local_transport.h"
#include "wire/cluster.h"

namespace salvage::e2e {
namespace {

using std::chrono::seconds;

constexpr const char* kPin = "v0.4.0";

// An open connection without manners; closed with the object.
class Visitor {
 public:
  explicit Visitor(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;
  ~Visitor() { ::close(socket_); }

  bool connected() const { return connected_; }
  void say(const std::string& bytes) {
    (void)!::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

 private:
  int socket_;
  bool connected_ = false;
};

class Worker : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = RunFolder::create();
    ASSERT_TRUE(folder) << folder.error().message();
    folder_.push_back(std::move(*folder));
    path_ = folder_.front().path() + "/stage.sock";
    const auto token = random_hex(32);
    ASSERT_TRUE(token);
    token_ = *token;
    auto child = Child::spawn({.arguments = {SALVAGE_BINARY, "stage", "--listen", "unix:" + path_},
                               .secret_line = agent::encode_worker_secret({.token = token_})});
    ASSERT_TRUE(child) << child.error().message();
    child_.push_back(std::move(*child));
    const TimePoint deadline = deadline_after(clock_.now(), seconds(30));
    while (::access(path_.c_str(), F_OK) != 0) {
      ASSERT_FALSE(child_.front().wait_for(std::chrono::milliseconds(10)));
      ASSERT_LT(clock_.now(), deadline);
    }
  }

  Result<pipeline::DialedLink> introduce(const std::string& token, const std::string& pin) {
    const auto endpoint = transport::parse_endpoint("unix:" + path_);
    if (!endpoint) return fail(endpoint.error());
    return pipeline::dial(*transport_, *endpoint,
                          {.llama_pin = pin, .kernel_fingerprint = {}, .auth_token = token},
                          deadline_after(clock_.now(), seconds(20)));
  }
  // The right coordinator: is let in, gets an answer, and ends the worker in order.
  void expect_service() {
    auto link = introduce(token_, kPin);
    ASSERT_TRUE(link) << link.error().message();
    pipeline::ControlLink control(*link->connection);
    const TimePoint deadline = deadline_after(clock_.now(), seconds(20));
    const auto listening = control.expect<wire::StageListening>(deadline);
    ASSERT_TRUE(listening) << listening.error().message();
    EXPECT_EQ(listening->local_endpoint, "unix:" + path_);
    ASSERT_TRUE(control.send(wire::Ping{.nonce = 7}, deadline));
    const auto pong = control.expect<wire::Pong>(deadline);
    ASSERT_TRUE(pong) << pong.error().message();
    EXPECT_EQ(pong->nonce, 7U);
    ASSERT_TRUE(control.send(wire::Shutdown{.reason = "test"}, deadline));
    const auto status = child_.front().wait_for(seconds(20));
    ASSERT_TRUE(status);
    EXPECT_EQ(status->text(), "exit code 0") << child_.front().last_words();
  }

  SteadyClock clock_;
  std::vector<RunFolder> folder_;
  std::string path_;
  std::string token_;
  std::unique_ptr<transport::Transport> transport_ = transport::make_local_transport();
  std::vector<Child> child_;
};

TEST_F(Worker, serves_who_knows_its_secret) {
  expect_service();
}

TEST_F(Worker, survives_nonsense) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4096, '\0'), std::string(4096, '\xff'),
        std::string("SLVG"), std::string("SLVG\x01\x00\x01", 7) + std::string(41, '\x7f')}) {
    Visitor visitor(path_);
    ASSERT_TRUE(visitor.connected());
    visitor.say(bytes);
  }
  expect_service();
}

TEST_F(Worker, does_not_wait_for_visitors_who_say_nothing) {
  std::vector<std::unique_ptr<Visitor>> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(std::make_unique<Visitor>(path_));
  for (const auto& visitor : silent) ASSERT_TRUE(visitor->connected());
  const TimePoint begin = clock_.now();
  expect_service();
  EXPECT_LT(clock_.now() - begin, seconds(10));
}

TEST_F(Worker, outlasts_more_silent_visitors_than_it_has_room_for) {
  std::vector<std::unique_ptr<Visitor>> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(std::make_unique<Visitor>(path_));
  expect_service();
}

TEST_F(Worker, refuses_another_secret_and_another_llama) {
  const auto stranger = introduce(std::string(64, '0'), kPin);
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code(), ErrorCode::kUnauthenticated);
  const auto nobody = introduce("", kPin);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code(), ErrorCode::kUnauthenticated);
  const auto older = introduce(token_, "v0.3.0");
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code(), ErrorCode::kUnsupported);
  expect_service();
}

TEST_F(Worker, closes_the_link_of_a_second_coordinator) {
  auto first = introduce(token_, kPin);
  ASSERT_TRUE(first) << first.error().message();
  pipeline::ControlLink control(*first->connection);
  const TimePoint deadline = deadline_after(clock_.now(), seconds(10));
  ASSERT_TRUE(control.expect<wire::StageListening>(deadline));
  ASSERT_TRUE(control.send(wire::Ping{.nonce = 1}, deadline));
  ASSERT_TRUE(control.expect<wire::Pong>(deadline));
  auto second = introduce(token_, kPin);
  ASSERT_TRUE(second) << second.error().message();
  pipeline::ControlLink other(*second->connection);
  const auto frame = other.receive(deadline);
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code(), ErrorCode::kUnavailable) << frame.error().message();
}

// Time as a process sees it that is stopped now and then.
class JumpingClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now() + jumped_.load(); }
  void jump(Duration by) { jumped_ = jumped_.load() + by; }

 private:
  std::atomic<Duration> jumped_{Duration::zero()};
};

TEST(WorkerLink, a_parent_that_was_stopped_does_not_blame_its_workers) {
  const auto folder = RunFolder::create();
  ASSERT_TRUE(folder) << folder.error().message();
  const auto token = random_hex(32);
  ASSERT_TRUE(token);
  JumpingClock clock;
  const auto transport = transport::make_local_transport();
  const auto link = agent::WorkerLink::start(
      {.executable = SALVAGE_BINARY,
       .endpoint = "unix:" + folder->path() + "/stage.sock",
       .stage_index = 0,
       .hello = {.llama_pin = kPin, .kernel_fingerprint = {}, .auth_token = *token},
       .secret = agent::encode_worker_secret({.token = *token}),
       .arguments = {},
       .progress = {}},
      *transport, clock);
  ASSERT_TRUE(link) << link.error().message();
  constexpr std::uint32_t kPingsMax = 40;
  EXPECT_FALSE((*link)->silence(kPingsMax));
  clock.jump(seconds(60));
  const auto lost = (*link)->silence(kPingsMax);
  EXPECT_FALSE(lost) << lost->message();
}

TEST_F(Worker, leaves_when_its_coordinator_does) {
  {
    auto link = introduce(token_, kPin);
    ASSERT_TRUE(link) << link.error().message();
  }
  EXPECT_TRUE(child_.front().wait_for(seconds(20))) << "it should not wait for another one";
}

TEST_F(Worker, leaves_with_its_lifeline) {
  child_.front().release();
  EXPECT_TRUE(child_.front().wait_for(seconds(20)));
  EXPECT_NE(::access(path_.c_str(), F_OK), 0) << "its socket stays behind";
}

}  // namespace
}  // namespace salvage::e2e
