#pragma once

// For tests only: a coordinator with its state in a folder of its own, and machines that meet it on
// the memory transport. Machines do what the test says and nothing by themselves but answer pings.
// Every wait has a limit, after which the test fails. One thread, the test's.

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounded_queue.h"
#include "base/mutex.h"
#include "coordinator/coordinator.h"
#include "identity/node_identity.h"
#include "pipeline/control_link.h"
#include "transport/transport.h"
#include "wire/cluster.h"

namespace salvage::coordinator {

inline constexpr const char* kTestPin = "v0.4.0";

// Far enough away that only a hang reaches it.
inline TimePoint soon() {
  return deadline_after(SteadyClock().now(), std::chrono::seconds(20));
}

class TestCluster {
 public:
  // The model, of so many layers, is on the coordinator's machine.
  explicit TestCluster(std::uint32_t layer_count = 6);
  ~TestCluster();

  Coordinator& coordinator() { return *coordinator_; }
  store::PieceStore& store() { return *store_; }
  transport::Transport& transport() { return *transport_; }
  const identity::NodeKey& own_key() const { return own_key_; }
  const ModelId& model() const { return model_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t wall_clock_ms = 1'000'000;

  // As a `kill -9` of it, and a new start on the same state. Machines have to link anew.
  void restart();

  // The next event with this code; fails if there is none.
  ClusterEvent event(const std::string& code);
  // Waits until the only deployment is in this state.
  DeploymentInfo wait_for(cluster::DeploymentState state);
  DeploymentInfo deployment() { return coordinator().deployments().at(0); }
  std::vector<NodeId> shut_out();

  // Both ends of a link from a machine: ours, and the coordinator's, which knows whose it is.
  struct Link {
    std::unique_ptr<transport::Connection> near;
    std::unique_ptr<transport::Connection> far;
  };
  Link connect(transport::PeerIdentity peer);

 private:
  void start();

  const std::filesystem::path folder_;
  const SteadyClock clock_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<state::StateDb> state_;
  std::unique_ptr<store::PieceStore> store_;
  identity::Authority authority_;
  identity::NodeKey own_key_;
  ModelId model_;
  BoundedQueue<ClusterEvent> events_{1000};
  Mutex mutex_;
  std::vector<NodeId> shut_out_ GUARDED_BY(mutex_);
  int links_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
};

// A machine; the first one that is made with the cluster's own key is the coordinator's agent.
class TestNode {
 public:
  TestNode(TestCluster& cluster, identity::NodeKey key, std::string name);
  TestNode(TestCluster& cluster, const std::string& name);
  ~TestNode() { unlink(); }

  const NodeId& id() const { return key_.id; }
  const std::string& name() const { return name_; }
  std::string address() const { return "tls:" + name_address_ + ":7420"; }

  // Joins with a code; the coordinator's answer.
  wire::JoinReply join(const std::string& code);
  // A node link, as process `instance` of the machine. Waits for nothing.
  void link(const std::string& instance = "one");
  // With a new code, and waits until the link is taken.
  TestNode& join_and_link();
  // The link ends without a word.
  void unlink();
  // Waits until the coordinator has ended the link.
  void expect_closed();

  template <typename Message>
  void send(const Message& message, PlanEpoch epoch = {}) {
    const auto sent = control_->send(message, soon(), epoch);
    EXPECT_TRUE(sent) << sent.error().message();
  }
  // The next message of this kind; others before it are dropped.
  template <typename Message>
  Message expect() {
    while (auto frame = frames_.pop(soon())) {
      if (frame->type != Message::kType) continue;
      const auto message = wire::decode_control<Message>(frame->body);
      EXPECT_TRUE(message) << message.error().message();
      return message ? *message : Message{};
    }
    ADD_FAILURE() << name_ << " was sent no " << wire::frame_type_name(Message::kType);
    return {};
  }
  // Asks and gets the answer. All that was sent before has been taken then, and all that came of it
  // is here: messages of this kind among it are counted.
  wire::MemberReply ask(const std::string& kind, const std::string& value = "");
  template <typename Message>
  int count_until_answer() {
    (void)control_->send(wire::MemberRequest{.kind = "knows", .value = ""}, soon());
    int count = 0;
    while (auto frame = frames_.pop(soon())) {
      if (frame->type == wire::FrameType::kMemberReply) return count;
      if (frame->type == Message::kType) ++count;
    }
    ADD_FAILURE() << name_ << " gets no answer";
    return count;
  }
  // Waits for a view in which a machine has this state.
  void expect_view(const std::string& node_name, const std::string& state);
  void tell_inventory(const ModelId& model, const std::vector<PieceDigest>& pieces);

 private:
  struct Received {
    wire::FrameType type = wire::FrameType::kPing;
    std::vector<std::byte> body;
  };
  void read_loop();
  transport::PeerIdentity identity(bool member) const;

  TestCluster& cluster_;
  const identity::NodeKey key_;
  const std::string name_;
  const std::string name_address_;
  std::unique_ptr<transport::Connection> connection_;
  std::unique_ptr<pipeline::ControlLink> control_;
  BoundedQueue<Received> frames_{1000};
  BoundedQueue<bool> ended_{1};  // the link
  std::thread admitting_;
  std::thread reading_;
};

}  // namespace salvage::coordinator
