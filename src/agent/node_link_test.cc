// Goal: an agent finds its coordinator again whenever it comes back, answers its pings, and notices
// when it stops answering. Method: coordinators on the memory transport that come and go.

#include "agent/node_link.h"

#include <gtest/gtest.h>

#include "base/bounded_queue.h"
#include "pipeline/handshake.h"
#include "transport/memory_transport.h"

namespace salvage::agent {
namespace {

class NodeLinkTest : public testing::Test {
 protected:
  TimePoint soon() const { return deadline_after(clock_.now(), std::chrono::seconds(30)); }

  std::unique_ptr<NodeLink> make_link() {
    NodeLinkEvents events;
    events.addresses = [this] { return std::vector{endpoint_}; };
    events.up = [](const transport::Connection&) { return wire::NodeFacts{.name = "pi"}; };
    events.frame = [this](const transport::IncomingFrame& frame) -> Result<void> {
      (void)frames_.push(frame.header.type);
      return {};
    };
    events.down = [this](const Error& error, Duration) { (void)downs_.push(error); };
    auto link = std::make_unique<NodeLink>(NodeLinkOptions{.llama_pin = "v0.4.0"},
                                           std::move(events), *transport_, clock_);
    link->start();
    return link;
  }

  // A coordinator that lets the next agent in and has read its facts.
  std::unique_ptr<transport::Connection> let_in(transport::Listener& listener) {
    auto connection = listener.accept(soon());
    EXPECT_TRUE(connection) << connection.error().message();
    const pipeline::Terms terms{{"v0.4.0", "", PlanEpoch{0}, wire::kWireVersion, true}, 0};
    EXPECT_TRUE(pipeline::welcome(
        **connection, [&](const wire::Hello&) { return terms; }, soon()));
    pipeline::ControlLink control(**connection);
    const auto facts = control.expect<wire::NodeFacts>(soon());
    EXPECT_TRUE(facts) << facts.error().message();
    EXPECT_TRUE(facts && facts->name == "pi");
    return std::move(*connection);
  }

  SteadyClock clock_;
  std::unique_ptr<transport::Transport> transport_ = transport::make_memory_transport();
  transport::Endpoint endpoint_ = *transport::parse_endpoint("unix:/coordinator");
  BoundedQueue<wire::FrameType> frames_{100};
  BoundedQueue<Error> downs_{100};
};

TEST_F(NodeLinkTest, answers_pings_and_hands_on_the_rest) {
  auto listener = *transport_->listen(endpoint_);
  const auto link = make_link();
  const auto connection = let_in(*listener);
  pipeline::ControlLink control(*connection);
  ASSERT_TRUE(control.send(wire::Ping{.nonce = 9}, soon()));
  ASSERT_TRUE(control.send(wire::ClusterView{.version = 1}, soon()));
  EXPECT_EQ(frames_.pop(soon()), wire::FrameType::kClusterView);
  for (;;) {  // its own pings may come in between
    const auto frame = control.receive(soon());
    ASSERT_TRUE(frame) << frame.error().message();
    if ((*frame)->header.type != wire::FrameType::kPong) continue;
    const auto pong = wire::decode_control<wire::Pong>((*frame)->body);
    ASSERT_TRUE(pong);
    EXPECT_EQ(pong->nonce, 9U);
    break;
  }
}

TEST_F(NodeLinkTest, comes_back_when_the_coordinator_does) {
  auto listener = *transport_->listen(endpoint_);
  const auto link = make_link();
  { const auto first = let_in(*listener); }
  ASSERT_TRUE(downs_.pop(soon()));
  const auto second = let_in(*listener);
  pipeline::ControlLink control(*second);
  ASSERT_TRUE(control.send(wire::ClusterView{.version = 1}, soon()));
  EXPECT_EQ(frames_.pop(soon()), wire::FrameType::kClusterView);
  EXPECT_TRUE(link->connected());
}

TEST_F(NodeLinkTest, keeps_trying_an_address_where_nobody_is) {
  const auto link = make_link();
  ASSERT_TRUE(downs_.pop(soon()));
  EXPECT_FALSE(link->connected());
  EXPECT_FALSE(link->send(wire::NodeStatus{}));
  auto listener = *transport_->listen(endpoint_);
  link->retry_now();
  EXPECT_NE(let_in(*listener), nullptr);
}

TEST_F(NodeLinkTest, gives_up_a_coordinator_that_stopped_answering) {
  auto listener = *transport_->listen(endpoint_);
  const auto link = make_link();
  const auto silent = let_in(*listener);
  const auto why = downs_.pop(soon());
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code(), ErrorCode::kUnavailable);
}

TEST_F(NodeLinkTest, ends_at_once_while_it_is_connected) {
  auto listener = *transport_->listen(endpoint_);
  auto link = make_link();
  const auto connection = let_in(*listener);
  link.reset();
  EXPECT_EQ(downs_.size(), 0U);
}

}  // namespace
}  // namespace salvage::agent
