// Goal: whatever happens in whatever order, the rules of a cluster hold, and once nothing happens
// any more, what shall be loaded is loaded.
// Method: a coordinator with Membership and two Deployments over five simulated nodes. Everything
// that is on its way (pongs, fetches, workers, answers of the planner) lies in one pool from which
// a seeded generator takes what comes next, so that answers overtake each other and come late from
// old epochs. In between nodes die, fall silent, come back, move, leave, are copied and removed,
// workers die, users load and unload. After each action and event the rules are checked.

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "cluster/deployment.h"
#include "cluster/membership.h"
#include "planner/placement.h"

namespace salvage::cluster {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint32_t kLayers = 12;
constexpr std::size_t kNodes = 5;
constexpr std::size_t kModels = 2;

model::Manifest small_manifest() {
  model::Manifest manifest;
  manifest.architecture = "made-up";
  manifest.layer_count = kLayers;
  manifest.layers.assign(kLayers, {.weight_bytes = 100 * kMib});
  manifest.split.architecture = "made-up";
  manifest.split.layer_count = kLayers;
  manifest.split.layer_kinds.assign(kLayers, 0);
  manifest.split.cut_legal.assign(kLayers + 1, true);
  return manifest;
}

NodeId node_id(std::size_t index) {
  return NodeId{std::string(64, static_cast<char>('a' + index))};
}

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : random_(seed),
        manifest_(small_manifest()),
        members_({.local = newcomer(0), .view_version = 1}) {
    for (std::size_t i = 0; i < kModels; ++i) {
      deployments_.emplace_back(ModelId{std::to_string(i)}, std::set<NodeId>{node_id(0)}, now_);
    }
    for (std::size_t i = 1; i < kNodes; ++i) {
      join(i);
      connect(i);
    }
  }

  void step() {
    if (!pool_.empty() && random_.below(8) != 0) {
      deliver();
    } else {
      disturb();
    }
    check();
  }

  // No more mishaps: all nodes are back and answer, and all that is on its way arrives.
  void settle() {
    settling_ = true;
    for (SimulatedNode& node : nodes_) node.answers = true;
    for (int second = 0; second < 300; ++second) {
      for (std::size_t i = 1; i < kNodes; ++i) {
        if (members_.is_removed(node_id(i)) || members_.link_of(node_id(i))) continue;
        join(i);
        connect(i);
      }
      while (!pool_.empty()) {
        deliver();
        check();
      }
      tick();
      check();
    }
  }

  void expect_peace() const {
    for (std::size_t i = 0; i < kNodes; ++i) {
      const Member* const member = members_.find(node_id(i));
      if (members_.is_removed(node_id(i))) continue;
      ASSERT_NE(member, nullptr);
      EXPECT_EQ(member->state, MemberState::kOnline) << i << " " << member->reason;
    }
    for (const Deployment& deployment : deployments_) {
      const DeploymentStatus status = deployment.status();
      const bool no_room = status.reason.find("does not fit") != std::string::npos;
      if (!status.wanted) {
        EXPECT_EQ(status.state, DeploymentState::kUnloaded);
      } else if (!no_room) {
        EXPECT_EQ(status.state, DeploymentState::kReady) << status.reason;
      }
    }
  }

  std::uint64_t ready_count() const { return ready_count_; }
  std::uint64_t lost_count() const { return lost_count_; }
  std::uint64_t stale_count() const { return stale_count_; }

 private:
  struct SimulatedNode {
    bool answers = true;
  };

  static Newcomer newcomer(std::size_t index) {
    return {.node = node_id(index), .name = fmt::format("node-{}", index)};
  }

  // --- the nodes ---

  void join(std::size_t index) {
    auto joined = members_.join_accepted(newcomer(index));
    if (joined) carry_out(joined->actions);
  }

  void connect(std::size_t index) {
    const LinkId link{++last_link_};
    link_node_[link] = index;
    carry_out(members_.link_up(link, newcomer(index)));
  }

  void break_link(std::size_t index) {
    const auto link = members_.link_of(node_id(index));
    if (!link) return;
    live_.erase(*link);
    carry_out(members_.link_down(*link, "connection reset"));
  }

  void say_goodbye(std::size_t index) {
    const auto link = members_.link_of(node_id(index));
    if (link && nodes_[index].answers) carry_out(members_.goodbye(*link));
  }

  std::size_t some_node() { return 1 + random_.below(kNodes - 1); }
  Deployment& some_deployment() { return deployments_[random_.below(kModels)]; }

  void tick() {
    now_ += std::chrono::seconds(1);
    carry_out(members_.tick(now_));
    for (std::size_t i = 0; i < kModels; ++i) carry_out(i, deployments_[i].tick(now_));
  }

  void disturb() {
    const std::size_t node = some_node();
    switch (random_.below(32)) {
      case 0:
        nodes_[node].answers = true;
        random_.below(2) == 0 ? break_link(node) : say_goodbye(node);
        break;
      case 1:
        nodes_[node].answers = false;
        break;
      case 2:
      case 3:
      case 8:
      case 9:
        nodes_[node].answers = true;
        if (members_.is_member(node_id(node))) connect(node);  // perhaps a second link
        break;
      case 4:
        fail_worker(node);
        break;
      case 5:
        change_membership(node);
        break;
      case 6:
        user();
        break;
      case 7:
        now_ += std::chrono::seconds(random_.below(90));  // the coordinator itself was stopped
        break;
      default:
        tick();
    }
  }

  void fail_worker(std::size_t node) {
    const std::size_t model = random_.below(kModels);
    const DeploymentStatus status = deployments_[model].status();
    for (std::uint32_t i = 0; i < status.stages.size(); ++i) {
      if (status.stages[i].placed.node != node_id(node)) continue;
      const StageRef stage{status.epoch, StageIndex{i}};
      carry_out(model, deployments_[model].stage_failed(stage, {"killed by signal 9", "last"}));
      return;
    }
  }

  void change_membership(std::size_t node) {
    Result<MembershipActions> actions = MembershipActions{};
    switch (random_.below(4)) {
      case 0:
        if (random_.below(15) == 0) actions = members_.remove(node_id(node));
        break;
      case 1:
        actions = members_.leave(node_id(node));
        break;
      case 2:
        actions = members_.rename(node_id(node), "node-1");
        break;
      default:
        join(node);
    }
    if (actions) carry_out(*actions);
  }

  void user() {
    const std::size_t model = random_.below(kModels);
    if (random_.below(3) == 0) {
      carry_out(model, deployments_[model].unload());
      return;
    }
    DeploymentOptions options;
    options.sequence_count = static_cast<std::uint32_t>(1 + random_.below(2));
    carry_out(model, deployments_[model].load(options));
  }

  // --- what is on its way ---

  void deliver() {
    const std::size_t index = random_.below(pool_.size());
    const std::function<void()> event = std::move(pool_[index]);
    pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(index));
    event();
  }

  // The node's answer, on the link over which it was asked: what is under way when that ends is
  // lost, what a silent node has to say comes later. Some come twice.
  void answer(const NodeId& node, const std::function<void()>& event) {
    const auto link = members_.link_of(node);
    if (!link) {
      pool_.push_back(event);  // the coordinator's own node
      return;
    }
    deliver_over(*link, event);
    if (random_.below(20) == 0) deliver_over(*link, event);
  }
  void deliver_over(LinkId link, const std::function<void()>& event) {
    pool_.emplace_back([this, link, event] {
      if (!live_.contains(link)) return;
      if (nodes_[link_node_.at(link)].answers) {
        event();
      } else {
        deliver_over(link, event);
      }
    });
  }

  void carry_out(const MembershipActions& actions) {
    for (const MembershipAction& action : actions) {
      std::visit([this](const auto& one) { carry_out_one(one); }, action);
    }
  }
  void carry_out_one(const AcceptLink& accept) {
    EXPECT_FALSE(members_.is_removed(accept.node));
    for (const auto& [link, node] : live_) EXPECT_NE(node, accept.node) << "two live links";
    live_[accept.link] = accept.node;
  }
  void carry_out_one(const RefuseLink& refuse) { EXPECT_FALSE(live_.contains(refuse.link)); }
  void carry_out_one(const CloseLink& close) { EXPECT_EQ(live_.erase(close.link), 1); }
  void carry_out_one(const SendPing& ping) {
    EXPECT_TRUE(live_.contains(ping.link));
    deliver_over(ping.link, [this, ping] { carry_out(members_.pong(ping.link, ping.nonce)); });
  }
  void carry_out_one(const PublishView& publish) {
    EXPECT_GT(publish.view.version, view_version_);
    view_version_ = publish.view.version;
    std::set<std::string> names;
    for (const Member& member : publish.view.members) {
      EXPECT_TRUE(names.insert(member.name).second) << member.name;
    }
  }
  void carry_out_one(const PersistMember& persist) {
    EXPECT_FALSE(members_.is_removed(persist.member.node));
  }
  void carry_out_one(const ForgetMember&) {}
  void carry_out_one(const NodeOnline& online) {
    told_online_.insert(online.node);
    for (std::size_t i = 0; i < kModels; ++i) {
      carry_out(i, deployments_[i].node_online(online.node));
    }
  }
  void carry_out_one(const NodeLost& lost) {
    ++lost_count_;
    told_online_.erase(lost.node);
    for (std::size_t i = 0; i < kModels; ++i) {
      carry_out(i, deployments_[i].node_lost(lost.node, lost.reason, lost.for_good()));
    }
  }

  void carry_out(std::size_t model, const DeploymentActions& actions) {
    for (const DeploymentAction& action : actions) {
      std::visit([this, model](const auto& one) { carry_out_one(model, one); }, action);
    }
  }
  void carry_out_one(std::size_t model, const MakePlan& plan) {
    pool_.emplace_back([this, model, plan] { make_plan(model, plan); });
  }
  void carry_out_one(std::size_t model, const FetchLayers& fetch) {
    expect_current(model, fetch.epoch, fetch.node);
    const StageRef stage{fetch.epoch, fetch.stage};
    const bool fails = !settling_ && random_.below(15) == 0;
    answer(fetch.node, [this, model, stage, fails] {
      note(model, stage);
      if (!fails) happened_.insert({"fetched", model, stage.epoch, stage.stage});
      carry_out(model, fails ? deployments_[model].fetch_failed(stage, "cut")
                             : deployments_[model].fetch_done(stage));
    });
  }
  void carry_out_one(std::size_t model, const StartWorker& start) {
    expect_current(model, start.epoch, start.node);
    EXPECT_TRUE(happened_.contains({"fetched", model, start.epoch, start.stage}));
    const StageRef stage{start.epoch, start.stage};
    answer(start.node, [this, model, stage] {
      note(model, stage);
      happened_.insert({"started", model, stage.epoch, stage.stage});
      carry_out(model, deployments_[model].worker_started(stage, {"there"}));
    });
  }
  void carry_out_one(std::size_t model, const LoadStage& load) {
    expect_current(model, load.epoch, load.node);
    EXPECT_TRUE(happened_.contains({"started", model, load.epoch, load.stage}));
    const StageRef stage{load.epoch, load.stage};
    answer(load.node, [this, model, stage] {
      note(model, stage);
      happened_.insert({"loaded", model, stage.epoch, stage.stage});
      carry_out(model, deployments_[model].stage_loaded(stage));
    });
  }
  void carry_out_one(std::size_t model, const ConnectPipeline& connect) {
    for (std::uint32_t i = 0; i < deployments_[model].status().stages.size(); ++i) {
      EXPECT_TRUE(happened_.contains({"loaded", model, connect.epoch, StageIndex{i}}));
    }
    const bool fails = !settling_ && random_.below(15) == 0;
    pool_.emplace_back([this, model, epoch = connect.epoch, fails] {
      carry_out(model, fails ? deployments_[model].link_failed(epoch, "refused")
                             : deployments_[model].pipeline_connected(epoch));
    });
  }
  void carry_out_one(std::size_t model, const StopStages& stop) {
    EXPECT_TRUE(told_online_.contains(stop.node));
    EXPECT_LE(stop.epoch, current_epoch_[model]);
    stopped_epoch_[model] = stop.epoch;
    answer(stop.node, [this, model, stop] {
      carry_out(model, deployments_[model].stages_stopped(stop.node, stop.epoch));
    });
  }
  void carry_out_one(std::size_t model, const FailRequests& failed) {
    EXPECT_EQ(failed.epoch, current_epoch_[model]);
    stopped_epoch_[model] = failed.epoch;
  }
  void carry_out_one(std::size_t, const Announce& announce) {
    if (announce.state == DeploymentState::kReady) ++ready_count_;
  }
  void carry_out_one(std::size_t model, const PersistDeployment& persist) {
    EXPECT_EQ(persist.record, deployments_[model].record());
  }

  void make_plan(std::size_t model, const MakePlan& plan) {
    planner::PlacementRequest request = to_placement_request(plan.options);
    request.need.context_per_sequence = 256;
    for (const NodeId& node : plan.nodes) {
      const std::size_t index = static_cast<std::size_t>(node.value[0] - 'a');
      request.nodes.push_back({.node = node,
                               .name = fmt::format("node-{}", index),
                               .memory_bytes = (500 + 50 * index) * kMib,
                               .reserve_bytes = 0});
    }
    request.current = request.held = plan.current;
    request.keep = plan.keep;
    auto placement = planner::place(manifest_, request);
    carry_out(model, placement ? deployments_[model].planned(PlanEpoch{++last_epoch_}, *placement)
                               : deployments_[model].plan_failed(placement.error()));
  }

  // --- the rules ---

  bool online(const NodeId& node) const {
    return node == node_id(0) || members_.link_of(node).has_value();
  }

  // An order goes to a node that is there, in the newest epoch, which was not stopped. A node is
  // there as long as nobody was told otherwise: one event may lose two, one after the other.
  void expect_current(std::size_t model, PlanEpoch epoch, const NodeId& node) {
    EXPECT_TRUE(told_online_.contains(node));
    EXPECT_FALSE(members_.is_removed(node));
    EXPECT_GE(epoch, current_epoch_[model]);
    EXPECT_GT(epoch, stopped_epoch_[model]);
    current_epoch_[model] = epoch;
  }

  void note(std::size_t model, const StageRef& stage) {
    if (stage.epoch != deployments_[model].epoch()) ++stale_count_;
  }

  void check() const {
    for (const Deployment& deployment : deployments_) {
      const DeploymentStatus status = deployment.status();
      std::uint32_t next = 0;
      std::set<NodeId> used;
      for (const StageStatus& stage : status.stages) {
        EXPECT_EQ(stage.placed.layers.begin, next);
        next = stage.placed.layers.end;
        EXPECT_TRUE(online(stage.placed.node));
        EXPECT_TRUE(used.insert(stage.placed.node).second);
        if (status.state == DeploymentState::kReady) {
          EXPECT_EQ(stage.state, StageState::kLoaded);
        }
      }
      EXPECT_TRUE(next == 0 || next == kLayers);
      EXPECT_EQ(next == 0, status.epoch.value == 0);
      if (status.state == DeploymentState::kReady) {
        EXPECT_EQ(next, kLayers);
        EXPECT_TRUE(status.wanted);
      }
      if (status.state == DeploymentState::kWaiting) {
        EXPECT_TRUE(status.retry_at.has_value());
      }
    }
    for (const auto& [link, node] : live_) EXPECT_EQ(members_.link_of(node), link);
  }

  Random random_;
  model::Manifest manifest_;
  Membership members_;
  std::vector<Deployment> deployments_;
  std::array<SimulatedNode, kNodes> nodes_;
  std::vector<std::function<void()>> pool_;
  std::map<LinkId, NodeId> live_;            // links that were accepted and not closed
  std::map<LinkId, std::size_t> link_node_;  // all there ever were
  std::array<PlanEpoch, kModels> current_epoch_{};
  std::array<PlanEpoch, kModels> stopped_epoch_{};
  // What a node has really reported of a stage, so that no report of an old epoch passes for it.
  std::set<std::tuple<std::string, std::size_t, PlanEpoch, StageIndex>> happened_;
  std::set<NodeId> told_online_{node_id(0)};
  TimePoint now_{std::chrono::hours(1)};
  bool settling_ = false;
  std::uint64_t last_link_ = 0;
  std::uint64_t last_epoch_ = 0;
  std::uint64_t view_version_ = 0;
  std::uint64_t ready_count_ = 0;
  std::uint64_t lost_count_ = 0;
  std::uint64_t stale_count_ = 0;
};

TEST(ClusterSimulation, rules_hold_whatever_happens_and_peace_follows) {
  constexpr int kSeeds = 60;
  constexpr int kSteps = 8000;
  std::uint64_t ready = 0;
  std::uint64_t lost = 0;
  std::uint64_t stale = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Simulation simulation(seed);
    for (int step = 0; step < kSteps; ++step) {
      simulation.step();
      if (::testing::Test::HasFailure()) FAIL() << "at step " << step;
    }
    simulation.settle();
    simulation.expect_peace();
    if (::testing::Test::HasFailure()) return;
    ready += simulation.ready_count();
    lost += simulation.lost_count();
    stale += simulation.stale_count();
  }
  // Else the simulation would prove nothing.
  EXPECT_GT(ready, 20U * kSeeds);
  EXPECT_GT(lost, 50U * kSeeds);
  EXPECT_GT(stale, 10U * kSeeds);
}

}  // namespace
}  // namespace salvage::cluster
