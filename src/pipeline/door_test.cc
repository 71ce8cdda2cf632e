// Goal: a door lets in who introduces itself in order, at once, whoever else stands in the doorway.
// Method: the memory transport; visitors that never speak.

#include "pipeline/door.h"

#include <atomic>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bounded_queue.h"
#include "base/log.h"
#include "pipeline/control_link.h"
#include "transport/memory_transport.h"

namespace salvage::pipeline {
namespace {

using testing::HasSubstr;

const wire::Hello kHello{.llama_pin = "v0.4.0", .kernel_fingerprint = {}, .auth_token = "secret"};

class DoorTest : public testing::Test {
 protected:
  // Far enough away that only a hang reaches it.
  TimePoint soon() const { return deadline_after(clock.now(), std::chrono::seconds(20)); }

  std::unique_ptr<Door> open(DoorOptions options, Result<void> allowed = {}) {
    std::vector<std::unique_ptr<transport::Listener>> listeners;
    listeners.push_back(*transport->listen(endpoint));
    return std::make_unique<Door>(
        std::move(listeners), options,
        [allowed](const wire::Hello&, const transport::Connection&) {
          return Terms{{"v0.4.0", "secret", PlanEpoch{0}}, 0, allowed};
        },
        [this](std::unique_ptr<transport::Connection> connection, const wire::Hello&) {
          (void)admitted.push(std::move(connection));
        },
        clock);
  }

  SteadyClock clock;
  std::unique_ptr<transport::Transport> transport = transport::make_memory_transport();
  transport::Endpoint endpoint = *transport::parse_endpoint("unix:/door");
  BoundedQueue<std::unique_ptr<transport::Connection>> admitted{100};
};

TEST_F(DoorTest, lets_in_who_knows_the_secret) {
  const auto door = open({});
  const auto link = dial(*transport, endpoint, kHello, soon());
  ASSERT_TRUE(link) << link.error().message();
  EXPECT_TRUE(admitted.pop(soon()));
  EXPECT_EQ(link->connection->wire_version(), wire::kWireVersion);
}

TEST_F(DoorTest, who_is_not_let_in_at_one_address_tries_no_other) {
  const auto door = open({}, fail(ErrorCode::kPermissionDenied, "not today"));
  const std::vector<transport::Endpoint> both{endpoint, *transport::parse_endpoint("unix:/none")};
  const auto link = dial_any(*transport, both, kHello, soon());
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(link.error().message().find("/none"), std::string::npos);
}

TEST_F(DoorTest, tells_why_somebody_in_order_is_not_let_in) {
  const auto door = open({}, fail(ErrorCode::kPermissionDenied, "not today"));
  const auto link = dial(*transport, endpoint, kHello, soon());
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code(), ErrorCode::kPermissionDenied);
  EXPECT_THAT(link.error().message(), HasSubstr("not today"));
}

TEST_F(DoorTest, is_not_blocked_by_a_crowd_that_says_nothing) {
  const auto door = open({.hello_time = std::chrono::hours(1), .doorway_max = 4});
  std::vector<std::unique_ptr<transport::Connection>> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(*transport->connect(endpoint, soon()));
  EXPECT_TRUE(dial(*transport, endpoint, kHello, soon()));
  EXPECT_TRUE(admitted.pop(soon()));
  // The first ones were sent away to make room, the last still stand there.
  transport::IncomingFrame frame;
  const auto first = silent.front()->receive_frame(frame, soon());
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code(), ErrorCode::kUnavailable);
}

TEST_F(DoorTest, a_flood_of_refused_peers_does_not_fill_the_log) {
  std::atomic<int> lines = 0;
  set_log({.sink = [&](std::string_view line) {
    lines += line.find("event=peer_refused") != std::string_view::npos;
  }});
  {
    const auto door = open({});
    wire::Hello wrong = kHello;
    wrong.auth_token = "guessed";
    for (int i = 0; i < 200; ++i) EXPECT_FALSE(dial(*transport, endpoint, wrong, soon()));
  }
  set_log({});
  EXPECT_GE(lines, 1);
  // Room for a machine so slow that seconds pass meanwhile.
  EXPECT_LT(lines, 100);
}

TEST_F(DoorTest, closes_while_people_stand_in_it) {
  auto door = open({.hello_time = std::chrono::hours(1)});
  const auto silent = *transport->connect(endpoint, soon());
  door.reset();
  transport::IncomingFrame frame;
  EXPECT_FALSE(silent->receive_frame(frame, soon()));
}

TEST_F(DoorTest, speaks_the_older_peers_version) {
  const auto door = open({});
  wire::Hello old = kHello;
  old.wire_version = wire::kWireVersionMin;
  const auto link = dial(*transport, endpoint, old, soon());
  ASSERT_TRUE(link) << link.error().message();
  EXPECT_EQ(link->connection->wire_version(), wire::kWireVersionMin);
  const auto other_end = admitted.pop(soon());
  ASSERT_TRUE(other_end);
  EXPECT_EQ((*other_end)->wire_version(), wire::kWireVersionMin);
}

}  // namespace
}  // namespace salvage::pipeline
