// Goal: from a wish to a ready pipeline and back to ready after every kind of failure, in the
// stated order and times, with the stated waits. Method: the coordinator's part is played by hand;
// actions are collected and looked at.

#include "cluster/deployment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

NodeId node_of(char letter) {
  return NodeId{std::string(1, letter)};
}

class DeploymentTest : public ::testing::Test {
 protected:
  DeploymentTest() : deployment_(ModelId{"m"}, {node_of('a'), node_of('b'), node_of('c')}, now_) {}

  // Keeps the actions of the last event.
  void on(DeploymentActions actions) {
    last_ = std::move(actions);
    for (const DeploymentAction& action : last_) {
      if (const auto* const persist = std::get_if<PersistDeployment>(&action)) {
        persisted_ = persist->record;
      }
    }
  }
  template <typename Action>
  std::vector<Action> all() const {
    std::vector<Action> found;
    for (const DeploymentAction& action : last_) {
      if (const auto* const one = std::get_if<Action>(&action)) found.push_back(*one);
    }
    return found;
  }
  // Time passes in steps of a second, as in life; only the last step's actions are kept if earlier
  // ones had none.
  void pass(int count) {
    DeploymentActions actions;
    for (int i = 0; i < count; ++i) {
      now_ += seconds(1);
      DeploymentActions more = deployment_.tick(now_);
      actions.insert(actions.end(), more.begin(), more.end());
    }
    on(std::move(actions));
  }

  // Four layers on each of these nodes.
  static planner::Placement placement(std::string_view nodes, std::uint64_t fetch_bytes = 0) {
    planner::Placement placement;
    std::uint32_t begin = 0;
    for (const char letter : nodes) {
      placement.stages.push_back({.node = node_of(letter),
                                  .name = std::string("node-") + letter,
                                  .layers = {begin, begin + 4},
                                  .fetch_bytes = fetch_bytes});
      begin += 4;
    }
    return placement;
  }
  void plan(std::string_view nodes, std::uint64_t fetch_bytes = 0) {
    on(deployment_.planned(PlanEpoch{++epoch_}, placement(nodes, fetch_bytes)));
  }
  StageRef stage(std::uint32_t index) const { return {PlanEpoch{epoch_}, StageIndex{index}}; }
  void each(DeploymentActions (Deployment::*event)(StageRef), std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) on((deployment_.*event)(stage(i)));
  }
  void start_all(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) on(deployment_.worker_started(stage(i), {"here"}));
  }
  void carry_out(std::uint32_t count) {
    each(&Deployment::fetch_done, count);
    start_all(count);
    each(&Deployment::stage_loaded, count);
    on(deployment_.pipeline_connected(PlanEpoch{epoch_}));
    ASSERT_EQ(deployment_.state(), DeploymentState::kReady);
  }
  void make_ready() {
    on(deployment_.load({}));
    plan("abc");
    carry_out(3);
  }
  void stop_answered(std::uint64_t epoch) {
    DeploymentActions actions;
    for (const char letter : {'a', 'b', 'c'}) {
      DeploymentActions more = deployment_.stages_stopped(node_of(letter), PlanEpoch{epoch});
      actions.insert(actions.end(), more.begin(), more.end());
    }
    on(std::move(actions));
  }
  std::string reason() const { return deployment_.status().reason; }
  DeploymentState state() const { return deployment_.state(); }

  TimePoint now_{seconds(1000)};
  Deployment deployment_;
  DeploymentActions last_;
  DeploymentRecord persisted_;
  std::uint64_t epoch_ = 100;
};

TEST_F(DeploymentTest, goes_through_the_order_of_a_load) {
  on(deployment_.load({.context_per_sequence = 2048}));
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_FALSE(all<MakePlan>()[0].keep);
  EXPECT_EQ(all<MakePlan>()[0].nodes.size(), 3);
  EXPECT_TRUE(persisted_.loaded);
  EXPECT_EQ(persisted_.options.context_per_sequence, 2048);
  plan("abc");
  ASSERT_EQ(all<FetchLayers>().size(), 3);
  EXPECT_EQ(all<FetchLayers>()[1].node, node_of('b'));
  EXPECT_EQ(all<FetchLayers>()[1].layers, (LayerRange{4, 8}));
  EXPECT_EQ(all<FetchLayers>()[1].epoch, PlanEpoch{101});
  each(&Deployment::fetch_done, 2);
  EXPECT_TRUE(last_.empty());
  on(deployment_.fetch_done(stage(2)));
  EXPECT_EQ(all<StartWorker>().size(), 3);
  start_all(3);
  EXPECT_EQ(all<LoadStage>().size(), 3) << "all at once";
  each(&Deployment::stage_loaded, 3);
  EXPECT_EQ(all<ConnectPipeline>().size(), 1);
  EXPECT_EQ(state(), DeploymentState::kLinking);
  on(deployment_.pipeline_connected(PlanEpoch{epoch_}));
  EXPECT_EQ(state(), DeploymentState::kReady);
  ASSERT_EQ(persisted_.home.size(), 3);
  EXPECT_EQ(persisted_.home[2], (HomeStage{node_of('c'), "node-c", {8, 12}}));
  EXPECT_EQ(deployment_.status().stages[0].endpoints, std::vector<std::string>{"here"});
}

TEST_F(DeploymentTest, unload_stops_everything_and_then_is_unloaded) {
  make_ready();
  on(deployment_.unload());
  EXPECT_FALSE(persisted_.loaded);
  EXPECT_EQ(all<FailRequests>().size(), 1);
  EXPECT_EQ(all<StopStages>().size(), 3);
  EXPECT_EQ(state(), DeploymentState::kUnloading);
  stop_answered(epoch_);
  EXPECT_EQ(state(), DeploymentState::kUnloaded);
  on(deployment_.unload());
  EXPECT_TRUE(last_.empty());
}

TEST_F(DeploymentTest, nodes_that_do_not_say_that_they_stopped_are_not_waited_for_for_ever) {
  make_ready();
  on(deployment_.unload());
  pass(9);
  EXPECT_EQ(state(), DeploymentState::kUnloading);
  pass(1);
  EXPECT_EQ(state(), DeploymentState::kUnloaded);
}

TEST_F(DeploymentTest, a_load_whose_first_plan_fails_has_not_begun) {
  on(deployment_.load({}));
  on(deployment_.plan_failed(Error(ErrorCode::kResourceExhausted, "it does not fit")));
  EXPECT_EQ(state(), DeploymentState::kUnloaded);
  EXPECT_EQ(reason(), "it does not fit");
  EXPECT_FALSE(persisted_.loaded);
  pass(200);
  EXPECT_TRUE(last_.empty());
}

TEST_F(DeploymentTest, events_of_another_epoch_change_nothing) {
  make_ready();
  const StageRef old{PlanEpoch{epoch_ - 1}, StageIndex{0}};
  const StageRef none{PlanEpoch{epoch_}, StageIndex{9}};
  for (const StageRef& ref : {old, none}) {
    on(deployment_.fetch_failed(ref, "x"));
    EXPECT_TRUE(last_.empty());
    on(deployment_.stage_failed(ref, {"x", ""}));
    EXPECT_TRUE(last_.empty());
    on(deployment_.stage_loaded(ref));
    on(deployment_.worker_started(ref, {}));
    EXPECT_TRUE(last_.empty());
  }
  on(deployment_.link_failed(old.epoch, "x"));
  on(deployment_.pipeline_connected(old.epoch));
  on(deployment_.planned(PlanEpoch{500}, placement("ab")));
  EXPECT_TRUE(last_.empty()) << "nobody asked";
  EXPECT_EQ(state(), DeploymentState::kReady);
}

TEST_F(DeploymentTest, a_late_report_of_an_old_epoch_does_not_pass_for_one_of_the_new) {
  make_ready();
  const std::uint64_t old = epoch_;
  on(deployment_.stage_failed(stage(1), {"died", ""}));
  stop_answered(old);
  pass(1);
  plan("abc");
  for (std::uint32_t i = 0; i < 3; ++i) {
    on(deployment_.fetch_done({PlanEpoch{old}, StageIndex{i}}));
    on(deployment_.fetch_done({PlanEpoch{epoch_ + 1}, StageIndex{i}}));
  }
  EXPECT_EQ(state(), DeploymentState::kFetching);
  each(&Deployment::fetch_done, 3);
  EXPECT_EQ(state(), DeploymentState::kStarting);
}

TEST_F(DeploymentTest, a_worker_that_dies_is_replaced_after_a_pause_in_a_new_epoch) {
  make_ready();
  on(deployment_.stage_failed(stage(1), {"killed by signal 9", "ggml: out of memory"}));
  EXPECT_EQ(state(), DeploymentState::kWaiting);
  EXPECT_THAT(reason(), HasSubstr("stage 1 on node-b (layers 4:8): killed by signal 9"));
  EXPECT_EQ(deployment_.status().last_lines, "ggml: out of memory");
  EXPECT_EQ(all<FailRequests>()[0].epoch, PlanEpoch{epoch_});
  EXPECT_EQ(all<StopStages>().size(), 3);
  stop_answered(epoch_);
  EXPECT_TRUE(last_.empty());
  pass(1);
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_TRUE(all<MakePlan>()[0].keep);
  EXPECT_THAT(all<MakePlan>()[0].current.at(node_of('b')), ElementsAre(LayerRange{4, 8}));
  plan("abc");
  carry_out(3);
}

TEST_F(DeploymentTest, a_broken_link_waits_for_whoever_knows_what_broke_it) {
  make_ready();
  on(deployment_.link_failed(PlanEpoch{epoch_}, "the peer closed the connection"));
  on(deployment_.link_failed(PlanEpoch{epoch_}, "the other one as well"));
  EXPECT_TRUE(last_.empty());
  EXPECT_EQ(state(), DeploymentState::kReady);
  on(deployment_.stage_failed(stage(1), {"died: killed by signal 9", ""}));
  EXPECT_EQ(all<FailRequests>()[0].reason,
            "stage 1 on node-b (layers 4:8): died: killed by signal 9");
  EXPECT_EQ(deployment_.status().failure_count, 1);
  stop_answered(epoch_);
  pass(2);
  EXPECT_EQ(deployment_.status().failure_count, 1) << "the link's end was the same failure";
  plan("abc");
  carry_out(3);
  on(deployment_.link_failed(PlanEpoch{epoch_}, "the peer closed the connection"));
  on(deployment_.node_lost(node_of('c'), "left 5 pings unanswered"));
  EXPECT_THAT(all<FailRequests>()[0].reason, HasSubstr("lost node node-c"));
}

TEST_F(DeploymentTest, a_broken_link_that_nobody_explains_ends_the_pipeline_by_itself) {
  make_ready();
  on(deployment_.link_failed(PlanEpoch{epoch_}, "the peer closed the connection"));
  pass(1);
  ASSERT_EQ(all<FailRequests>().size(), 1);
  EXPECT_EQ(
      all<FailRequests>()[0].reason,
      "a link of the pipeline (node-a, node-b, node-c) failed: the peer closed the connection");
  EXPECT_EQ(state(), DeploymentState::kWaiting);
}

TEST_F(DeploymentTest, no_new_plan_before_the_old_stages_have_stopped) {
  make_ready();
  on(deployment_.stage_failed(stage(1), {"died", ""}));
  pass(3);
  EXPECT_TRUE(all<MakePlan>().empty());
  EXPECT_EQ(state(), DeploymentState::kPlanning);
  on(deployment_.stages_stopped(node_of('a'), PlanEpoch{epoch_}));
  on(deployment_.stages_stopped(node_of('b'), PlanEpoch{epoch_ - 1}));
  on(deployment_.node_lost(node_of('c'), "gone"));
  EXPECT_TRUE(all<MakePlan>().empty()) << "b has not said so of this epoch";
  on(deployment_.stages_stopped(node_of('b'), PlanEpoch{epoch_}));
  EXPECT_EQ(all<MakePlan>().size(), 1);
}

TEST_F(DeploymentTest, pauses_grow_in_a_crash_loop_and_a_stable_time_forgets_them) {
  make_ready();
  std::vector<int> pauses;
  for (int round = 0; round < 8; ++round) {
    on(deployment_.stage_failed(stage(0), {"exited with code 1", ""}));
    stop_answered(epoch_);
    int waited = 0;
    while (state() == DeploymentState::kWaiting && waited < 100) {
      pass(1);
      ++waited;
    }
    pauses.push_back(waited);
    plan("abc");
    carry_out(3);
  }
  EXPECT_THAT(pauses, ElementsAre(1, 2, 4, 8, 16, 32, 60, 60));
  EXPECT_EQ(deployment_.status().failure_count, 8);
  pass(60);
  EXPECT_EQ(deployment_.status().failure_count, 0);
}

TEST_F(DeploymentTest, a_lost_node_s_layers_move_at_once_if_nothing_must_be_fetched) {
  make_ready();
  on(deployment_.node_lost(node_of('b'), "left 5 pings unanswered"));
  EXPECT_THAT(all<FailRequests>()[0].reason, HasSubstr("lost node node-b: left 5 pings"));
  EXPECT_EQ(all<StopStages>().size(), 2) << "b is not there to be told";
  stop_answered(epoch_);
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_THAT(all<MakePlan>()[0].nodes, ElementsAre(node_of('a'), node_of('c')));
  plan("ac", 0);
  EXPECT_EQ(state(), DeploymentState::kFetching);
  carry_out(2);
}

TEST_F(DeploymentTest, before_weights_move_a_lost_node_may_come_back) {
  make_ready();
  on(deployment_.node_lost(node_of('b'), "gone"));
  stop_answered(epoch_);
  plan("ac", 1000);
  EXPECT_EQ(state(), DeploymentState::kWaiting);
  EXPECT_THAT(reason(), HasSubstr("for node-b to come back"));
  pass(10);
  EXPECT_TRUE(last_.empty());
  on(deployment_.node_online(node_of('b')));
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_EQ(all<MakePlan>()[0].nodes.size(), 3);
  plan("abc");
  carry_out(3);
}

TEST_F(DeploymentTest, after_the_wait_weights_move) {
  make_ready();
  on(deployment_.node_lost(node_of('b'), "gone"));
  stop_answered(epoch_);
  plan("ac", 1000);
  pass(30);
  ASSERT_EQ(all<MakePlan>().size(), 1);
  plan("ac", 1000);
  EXPECT_EQ(state(), DeploymentState::kFetching);
  on(deployment_.node_online(node_of('b')));
  EXPECT_EQ(all<StopStages>().size(), 2) << "it has the layers, the others are still fetching";
  stop_answered(epoch_);
  EXPECT_EQ(all<MakePlan>().size(), 1);
}

TEST_F(DeploymentTest, a_node_that_left_is_not_waited_for) {
  make_ready();
  on(deployment_.node_lost(node_of('b'), "removed from the cluster", true));
  stop_answered(epoch_);
  plan("ac", 1000);
  EXPECT_EQ(state(), DeploymentState::kFetching);
}

TEST_F(DeploymentTest, a_node_that_comes_and_goes_does_not_keep_the_others_loading) {
  make_ready();
  on(deployment_.node_lost(node_of('b'), "gone"));
  stop_answered(epoch_);
  on(deployment_.node_online(node_of('b')));
  plan("abc");  // outdated: b came while it was being made
  plan("abc");
  carry_out(3);
  on(deployment_.node_lost(node_of('b'), "gone"));
  EXPECT_EQ(state(), DeploymentState::kWaiting) << "the second time there is a pause";
  stop_answered(epoch_);
  on(deployment_.node_online(node_of('b')));
  EXPECT_TRUE(last_.empty());
  pass(1);
  EXPECT_EQ(all<MakePlan>().size(), 1);
}

TEST_F(DeploymentTest, the_answer_to_an_outdated_plan_is_asked_for_again) {
  make_ready();
  on(deployment_.node_lost(node_of('b'), "gone"));
  stop_answered(epoch_);
  on(deployment_.node_lost(node_of('c'), "gone too"));
  plan("ac");
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_THAT(all<MakePlan>()[0].nodes, ElementsAre(node_of('a')));
  EXPECT_TRUE(all<FetchLayers>().empty());
}

TEST_F(DeploymentTest, a_node_without_a_part_in_it_may_come_and_go) {
  on(deployment_.load({}));
  plan("ab");
  carry_out(2);
  on(deployment_.node_lost(node_of('c'), "gone"));
  EXPECT_TRUE(last_.empty());
  on(deployment_.node_online(node_of('c')));
  EXPECT_TRUE(last_.empty());
  EXPECT_EQ(state(), DeploymentState::kReady);
}

TEST_F(DeploymentTest, a_failed_fetch_is_tried_again) {
  on(deployment_.load({}));
  plan("abc", 10);
  on(deployment_.fetch_progress(stage(0), 5, 10));
  EXPECT_EQ(deployment_.status().stages[0].fetched_bytes, 5);
  on(deployment_.fetch_failed(stage(0), "the disk is full"));
  EXPECT_THAT(reason(), HasSubstr("stage 0 on node-a (layers 0:4) could not get its weights"));
  EXPECT_EQ(state(), DeploymentState::kWaiting);
  stop_answered(epoch_);
  pass(1);
  EXPECT_EQ(all<MakePlan>().size(), 1);
}

TEST_F(DeploymentTest, loading_may_take_as_long_as_it_takes) {
  on(deployment_.load({}));
  plan("abc");
  pass(100'000);
  EXPECT_EQ(state(), DeploymentState::kFetching);
  each(&Deployment::fetch_done, 3);
  start_all(3);
  on(deployment_.load_progress(stage(0), 0.5));
  EXPECT_EQ(deployment_.status().stages[0].load_fraction, 0.5);
  pass(100'000);
  EXPECT_EQ(state(), DeploymentState::kLoading);
}

TEST_F(DeploymentTest, starting_and_linking_have_a_limit_that_our_own_stall_does_not_use_up) {
  on(deployment_.load({}));
  plan("abc");
  each(&Deployment::fetch_done, 3);
  pass(50);
  now_ += std::chrono::hours(1);
  on(deployment_.tick(now_));
  EXPECT_EQ(state(), DeploymentState::kStarting);
  pass(9);
  EXPECT_EQ(state(), DeploymentState::kStarting);
  pass(1);
  EXPECT_EQ(state(), DeploymentState::kWaiting);
  EXPECT_THAT(reason(), HasSubstr("no answer while starting"));
}

TEST_F(DeploymentTest, other_options_stop_what_runs_and_the_same_change_nothing) {
  make_ready();
  on(deployment_.load({}));
  EXPECT_TRUE(last_.empty());
  on(deployment_.load({.sequence_count = 4}));
  EXPECT_EQ(all<StopStages>().size(), 3);
  EXPECT_TRUE(all<MakePlan>().empty());
  stop_answered(epoch_);
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_FALSE(all<MakePlan>()[0].keep);
  EXPECT_EQ(all<MakePlan>()[0].options.sequence_count, 4);
}

TEST_F(DeploymentTest, a_split_becomes_pins_once_its_nodes_are_known) {
  on(deployment_.load({.split = {4, 4}}));
  EXPECT_EQ(all<MakePlan>()[0].options.split.size(), 2);
  plan("ab");
  EXPECT_THAT(persisted_.options.split, IsEmpty());
  EXPECT_EQ(persisted_.options.pins.at(node_of('b')).layers, (LayerRange{4, 8}));
}

TEST_F(DeploymentTest, pins_of_a_node_that_is_gone_for_good_bind_nobody) {
  on(deployment_.load({.split = {4, 4, 4}}));
  plan("abc");
  carry_out(3);
  ASSERT_EQ(deployment_.record().options.pins.size(), 3);
  on(deployment_.node_lost(node_of('b'), "out of reach"));
  EXPECT_EQ(deployment_.record().options.pins.size(), 3) << "it may come back";
  on(deployment_.node_lost(node_of('b'), "it was removed", true));
  EXPECT_TRUE(deployment_.record().options.pins.empty());
  EXPECT_TRUE(persisted_.options.pins.empty());
  stop_answered(epoch_);
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_TRUE(all<MakePlan>().front().options.pins.empty());
}

TEST_F(DeploymentTest, a_deployment_that_waits_for_a_pinned_node_goes_on_when_it_is_removed) {
  on(deployment_.load({.split = {4, 4, 4}}));
  plan("abc");
  carry_out(3);
  on(deployment_.node_lost(node_of('b'), "out of reach"));
  stop_answered(epoch_);
  on(deployment_.plan_failed(Error(ErrorCode::kUnavailable, "b has pinned layers")));
  ASSERT_EQ(state(), DeploymentState::kWaiting);
  on(deployment_.node_lost(node_of('b'), "it was removed", true));
  pass(1);
  EXPECT_EQ(all<MakePlan>().size(), 1);
}

TEST_F(DeploymentTest, unload_while_a_plan_is_being_made) {
  on(deployment_.load({}));
  on(deployment_.unload());
  EXPECT_EQ(state(), DeploymentState::kUnloaded);
  plan("abc");
  EXPECT_TRUE(last_.empty());
  on(deployment_.load({}));
  EXPECT_EQ(all<MakePlan>().size(), 1);
}

TEST_F(DeploymentTest, without_any_node_it_waits_for_one) {
  Deployment lonely(ModelId{"m"}, {}, now_);
  on(lonely.load({}));
  EXPECT_EQ(lonely.state(), DeploymentState::kWaiting);
  EXPECT_EQ(lonely.status().reason, "no node is online");
  on(lonely.node_online(node_of('a')));
  EXPECT_EQ(all<MakePlan>().size(), 1);
}

class RestoreTest : public DeploymentTest {
 protected:
  RestoreTest() {
    make_ready();
    deployment_ = Deployment(ModelId{"m"}, {node_of('a')}, now_);
  }
};

TEST_F(RestoreTest, after_a_restart_the_nodes_are_waited_for_and_the_old_places_kept) {
  on(deployment_.restore(persisted_));
  EXPECT_EQ(state(), DeploymentState::kWaiting);
  EXPECT_EQ(reason(), "for node-b, node-c to come back");
  on(deployment_.node_online(node_of('b')));
  EXPECT_TRUE(all<MakePlan>().empty());
  pass(5);
  on(deployment_.node_online(node_of('c')));
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_TRUE(all<MakePlan>()[0].keep);
  EXPECT_EQ(all<MakePlan>()[0].current.size(), 3);
  plan("abc");
  carry_out(3);
}

TEST_F(RestoreTest, who_does_not_come_back_is_done_without) {
  on(deployment_.restore(persisted_));
  on(deployment_.node_online(node_of('b')));
  pass(30);
  ASSERT_EQ(all<MakePlan>().size(), 1);
  plan("ab", 1000);
  EXPECT_EQ(state(), DeploymentState::kFetching);
}

TEST_F(RestoreTest, what_does_not_fit_waits_for_a_node) {
  on(deployment_.restore(persisted_));
  pass(30);
  on(deployment_.plan_failed(Error(ErrorCode::kResourceExhausted, "it does not fit")));
  EXPECT_EQ(state(), DeploymentState::kWaiting);
  EXPECT_EQ(reason(), "it does not fit");
  EXPECT_TRUE(deployment_.wanted());
  on(deployment_.node_online(node_of('b')));
  EXPECT_EQ(all<MakePlan>().size(), 1);
}

TEST_F(RestoreTest, a_load_that_was_cut_short_goes_on_with_its_plan) {
  Deployment first(ModelId{"m"}, {node_of('a'), node_of('b')}, now_);
  on(first.load({.split = {4, 4}}));
  on(first.planned(PlanEpoch{1}, placement("ab")));
  ASSERT_EQ(persisted_.home.size(), 2);
  on(deployment_.restore(persisted_));
  EXPECT_EQ(reason(), "for node-b to come back");
  on(deployment_.node_online(node_of('b')));
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_TRUE(all<MakePlan>()[0].options.split.empty());
  EXPECT_EQ(all<MakePlan>()[0].options.pins.size(), 2);
}

TEST_F(RestoreTest, a_load_without_a_plan_does_not_begin_with_the_first_node_alone) {
  on(deployment_.restore({.options = {}, .loaded = true, .home = {}}));
  on(deployment_.node_online(node_of('b')));
  EXPECT_TRUE(last_.empty());
  pass(30);
  ASSERT_EQ(all<MakePlan>().size(), 1);
  EXPECT_EQ(all<MakePlan>()[0].nodes.size(), 2);
}

TEST_F(RestoreTest, what_was_unloaded_stays_so) {
  persisted_.loaded = false;
  on(deployment_.restore(persisted_));
  pass(60);
  EXPECT_TRUE(last_.empty());
  EXPECT_EQ(state(), DeploymentState::kUnloaded);
}

}  // namespace
}  // namespace salvage::cluster
