// Goal: from a wish to a ready pipeline every machine is told exactly its part, what belongs to an
// old plan changes nothing, and spare copies and foreign models are fetched from who has them.
// Method: a coordinator with a real state and store, three machines on the memory transport that
// report what the test says; nothing is computed.

#include <array>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/test_cluster.h"
#include "model/tiny_model.h"
#include "pipeline/handshake.h"

namespace salvage::coordinator {
namespace {

using cluster::DeploymentState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class Deploy : public testing::Test {
 protected:
  Deploy() {
    for (TestNode* node : nodes_) node->join_and_link();
  }

  LoadWish wish(std::vector<std::uint32_t> split = {2, 2, 2}) {
    LoadWish wish;
    wish.model = cluster_.model();
    wish.options.split = std::move(split);
    wish.options.context_per_sequence = 64;
    wish.context_chosen = true;
    return wish;
  }

  void load() {
    const auto loaded = cluster_.coordinator().load(wish());
    ASSERT_TRUE(loaded) << loaded.error().message();
  }

  // Every machine has its layers: says so, and where its worker listens.
  void fetch_and_listen() {
    std::array<wire::FetchOrder, 3> orders;
    for (std::size_t i = 0; i < 3; ++i) orders[i] = nodes_[i]->expect<wire::FetchOrder>();
    epoch_ = PlanEpoch{orders[0].epoch};
    for (std::size_t i = 0; i < 3; ++i) {
      nodes_[i]->send(
          wire::FetchProgress{.epoch = orders[i].epoch, .model = orders[i].model, .phase = "done"},
          epoch_);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const auto start = nodes_[i]->expect<wire::StartStage>();
      token_ = start.token;
      nodes_[i]->send(wire::StageListening{.epoch = start.epoch,
                                           .stage_index = start.stage_index,
                                           .local_endpoint = "unix:/stage-" + std::to_string(i),
                                           .endpoints = {"tls:[::]:7421"}},
                      epoch_);
    }
  }

  void say_loaded(std::size_t i) {
    wire::StageLoaded loaded;
    loaded.epoch = epoch_.value;
    loaded.stage_index = static_cast<std::uint32_t>(i);
    loaded.weights_bytes = 1000 + i;
    loaded.kernel_fingerprint = "avx2";
    loaded.self_checked = loaded.exact = true;
    loaded.rows_exact_max = 16;
    loaded.vocabulary_size = 6;
    nodes_[i]->send(loaded, epoch_);
  }

  // What the last stage and the first one do when all are loaded.
  void connect() {
    wire::Hello hello;
    hello.llama_pin = kTestPin;
    hello.role = wire::LinkRole::kData;
    hello.epoch = epoch_.value;
    hello.auth_token = token_;
    auto link = cluster_.connect({.node = mac_.id(), .member = true});
    results_ = std::move(link.near);
    EXPECT_TRUE(cluster_.coordinator().terms(hello, *link.far).allowed);
    const auto stranger = cluster_.connect({.node = pi_.id(), .member = true});
    EXPECT_EQ(cluster_.coordinator().terms(hello, *stranger.far).allowed.error().code(),
              ErrorCode::kPermissionDenied)
        << "only the node of the last stage brings results";
    cluster_.coordinator().admit(std::move(link.far), hello);
    auto accepted = door_->accept(soon());
    ASSERT_TRUE(accepted) << accepted.error().message();
    first_ = std::move(*accepted);
    const auto welcomed = pipeline::welcome(
        *first_,
        [&](const wire::Hello&) {
          return pipeline::Terms{{kTestPin, token_, epoch_, wire::kWireVersion, false}, 8};
        },
        soon());
    ASSERT_TRUE(welcomed) << welcomed.error().message();
  }

  void make_ready() {
    load();
    fetch_and_listen();
    for (std::size_t i = 0; i < 3; ++i) (void)nodes_[i]->expect<wire::LoadStage>();
    for (std::size_t i = 0; i < 3; ++i) say_loaded(i);
    connect();
    cluster_.wait_for(DeploymentState::kReady);
  }

  TestCluster cluster_{6};
  TestNode self_{cluster_, cluster_.own_key(), "attic"};
  TestNode pi_{cluster_, "bpi"};  // stages follow the names
  TestNode mac_{cluster_, "cmac"};
  const std::array<TestNode*, 3> nodes_{&self_, &pi_, &mac_};
  std::unique_ptr<transport::Listener> door_ =
      *cluster_.transport().listen(*transport::parse_endpoint("unix:/stage-0"));
  std::unique_ptr<transport::Connection> first_;
  std::unique_ptr<transport::Connection> results_;
  PlanEpoch epoch_;
  std::string token_;
};

TEST_F(Deploy, each_machine_is_told_to_fetch_its_own_layers_from_who_has_them) {
  load();
  std::uint64_t epoch = 0;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto order = nodes_[i]->expect<wire::FetchOrder>();
    EXPECT_EQ(order.model, cluster_.model().value);
    EXPECT_EQ(order.layer_begin, 2 * i);
    EXPECT_EQ(order.layer_end, 2 * i + 2);
    EXPECT_FALSE(order.spare);
    EXPECT_EQ(order.epoch, i == 0 ? order.epoch : epoch) << "one plan, one epoch";
    epoch = order.epoch;
    ASSERT_THAT(order.sources, SizeIs(1)) << "only the coordinator's machine has the file";
    EXPECT_EQ(order.sources[0].node, self_.id().value);
    EXPECT_THAT(order.sources[0].endpoints, ElementsAre(self_.address() + "/" + self_.id().value));
    EXPECT_THAT(order.sources[0].pieces,
                SizeIs(cluster_.store().inventory(cluster_.model()).size()));
  }
  EXPECT_GT(epoch, 0U);
}

TEST_F(Deploy, stages_are_told_who_comes_before_and_where_the_next_one_is) {
  load();
  fetch_and_listen();
  std::array<wire::LoadStage, 3> orders;
  for (std::size_t i = 0; i < 3; ++i) orders[i] = nodes_[i]->expect<wire::LoadStage>();
  EXPECT_EQ(orders[0].upstream_node, "") << "the coordinator is on the same machine";
  EXPECT_EQ(orders[1].upstream_node, self_.id().value);
  EXPECT_EQ(orders[2].upstream_node, pi_.id().value);
  // The port is the worker's, the address the machine's.
  EXPECT_THAT(orders[0].next_endpoint, HasSubstr(pi_.id().value));
  EXPECT_THAT(orders[0].next_endpoint, HasSubstr(":7421/"));
  EXPECT_THAT(orders[1].next_endpoint, HasSubstr(mac_.id().value));
  EXPECT_THAT(orders[2].next_endpoint, HasSubstr(":7420/" + self_.id().value))
      << "results go to the coordinator's door";
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(orders[i].stage_index, i);
    EXPECT_EQ(orders[i].stage_count, 3U);
    EXPECT_EQ(orders[i].context_per_sequence, 64U);
    EXPECT_EQ(orders[i].sequence_count_max, 4U) << "nobody said how many";
    EXPECT_EQ(orders[i].epoch, epoch_.value);
    EXPECT_TRUE(orders[i].weights.empty()) << "paths are each machine's own";
  }
  EXPECT_GT(orders[0].credits, orders[1].credits) << "the first takes all that may be under way";
  EXPECT_THAT(token_, SizeIs(64));
}

TEST_F(Deploy, a_ready_pipeline_shows_its_stages_and_links) {
  make_ready();
  for (std::size_t i = 0; i < 3; ++i) {
    nodes_[i]->send(wire::Stats{.stage_index = static_cast<std::uint32_t>(i),
                                .steps = 10,
                                .bytes_in = 100 * i,
                                .bytes_out = 100 * (i + 1),
                                .out_timed = i > 0},
                    epoch_);
    (void)nodes_[i]->ask("knows");
  }
  const DeploymentInfo info = cluster_.deployment();
  EXPECT_THAT(info.exact_conditions, IsEmpty());
  ASSERT_THAT(info.stages, SizeIs(3));
  EXPECT_EQ(info.stages[1].status.placed.name, "bpi");
  EXPECT_EQ(info.stages[1].weights_bytes, 1001U);
  EXPECT_EQ(info.stages[1].counters->steps, 10U);
  ASSERT_THAT(info.links, SizeIs(4));
  EXPECT_EQ(info.links[0].from, "attic");
  EXPECT_GT(info.links[0].bytes_sent, 0U) << "the hello, at least";
  EXPECT_EQ(info.links[1].bytes_sent, 100U);
  EXPECT_EQ(info.links[1].bytes_arrived, 100U);
  EXPECT_EQ(info.links[2].from, "bpi");
  EXPECT_EQ(info.links[2].to, "cmac");
  EXPECT_EQ(info.links[3].to, "attic");
  EXPECT_FALSE(info.links[1].load) << "two samples make a rate";
}

TEST_F(Deploy, rates_come_with_the_second_report) {
  make_ready();
  std::uint64_t count = 0;
  const TimePoint end = soon();
  DeploymentInfo info = cluster_.deployment();
  while (info.links.size() < 4 || !info.links[2].bytes_per_second) {
    ASSERT_LT(SteadyClock().now(), end);
    ++count;
    for (std::size_t i = 0; i < 3; ++i) {
      nodes_[i]->send(wire::Stats{.stage_index = static_cast<std::uint32_t>(i),
                                  .busy_us = count,
                                  .bytes_out = 1000 * count,
                                  .out_timed = i == 1,
                                  .out_busy_us = count},
                      epoch_);
      (void)nodes_[i]->ask("knows");
    }
    info = cluster_.deployment();
  }
  EXPECT_GT(*info.links[2].bytes_per_second, 0);
  EXPECT_TRUE(info.links[2].load.has_value());
  EXPECT_FALSE(info.links[1].load) << "its sender can't know";
  EXPECT_TRUE(info.stages[1].busy.has_value());
}

TEST_F(Deploy, a_worker_that_dies_stops_all_of_the_plan_and_a_new_one_follows) {
  make_ready();
  const PlanEpoch old = epoch_;
  mac_.send(wire::StageFailed{.epoch = old.value,
                              .stage_index = 2,
                              .code = "internal",
                              .message = "exit code 3; its last words: no memory"},
            old);
  for (TestNode* node : nodes_) {
    EXPECT_EQ(node->expect<wire::Unload>().epoch, old.value);
    node->send(wire::Unload{.epoch = old.value}, old);
  }
  const auto order = pi_.expect<wire::FetchOrder>();  // after a pause of a second
  EXPECT_GT(order.epoch, old.value);
  EXPECT_EQ(order.layer_begin, 2U) << "where they were";
  const auto status = cluster_.deployment().status;
  EXPECT_EQ(status.last_lines, "no memory");
  EXPECT_EQ(status.failure_count, 1U);
}

TEST_F(Deploy, what_an_old_plan_or_another_machine_reports_changes_nothing) {
  load();
  const auto order = pi_.expect<wire::FetchOrder>();
  pi_.send(wire::StageFailed{.epoch = order.epoch - 1, .stage_index = 1, .code = "internal"},
           PlanEpoch{order.epoch - 1});
  // Of its own stage a machine speaks; the index that it names is not asked.
  pi_.send(wire::FetchProgress{.epoch = order.epoch + 7, .model = order.model, .phase = "failed"},
           PlanEpoch{order.epoch});
  (void)pi_.ask("knows");
  const auto status = cluster_.deployment().status;
  EXPECT_EQ(status.state, DeploymentState::kFetching);
  EXPECT_EQ(status.epoch.value, order.epoch);
  EXPECT_EQ(status.failure_count, 0U);
}

TEST_F(Deploy, a_wish_that_cannot_be_fulfilled_ends_with_its_reason) {
  const auto refused = cluster_.coordinator().load({.model = {std::string(64, 'a')}});
  EXPECT_EQ(refused.error().code(), ErrorCode::kNotFound);
  ASSERT_TRUE(cluster_.coordinator().load(wish({1, 2, 3, 4})));
  const DeploymentInfo info = cluster_.wait_for(DeploymentState::kUnloaded);
  EXPECT_FALSE(info.status.wanted);
  EXPECT_THAT(info.status.reason, HasSubstr("3"));
}

TEST_F(Deploy, unloading_stops_every_stage_and_a_loaded_model_is_not_deleted) {
  make_ready();
  EXPECT_EQ(cluster_.coordinator().remove_model(cluster_.model()).error().code(),
            ErrorCode::kInvalidArgument);
  ASSERT_TRUE(cluster_.coordinator().unload(cluster_.model()));
  for (TestNode* node : nodes_) {
    EXPECT_EQ(node->expect<wire::Unload>().epoch, epoch_.value);
    node->send(wire::Unload{.epoch = epoch_.value}, epoch_);
  }
  cluster_.wait_for(DeploymentState::kUnloaded);
  ASSERT_TRUE(cluster_.coordinator().remove_model(cluster_.model()));
  EXPECT_EQ(pi_.expect<wire::MemberRequest>().kind, "remove_model");
  EXPECT_THAT(cluster_.coordinator().models(), IsEmpty());
}

TEST_F(Deploy, after_a_restart_it_waits_for_the_machines_of_the_plan) {
  make_ready();
  for (TestNode* node : nodes_) node->unlink();
  results_.reset();
  first_.reset();
  cluster_.restart();
  EXPECT_THAT(cluster_.deployment().status.reason, HasSubstr("bpi"));
  for (TestNode* node : nodes_) node->link("two");
  const auto order = mac_.expect<wire::FetchOrder>();
  EXPECT_EQ(order.layer_begin, 4U);
  EXPECT_EQ(order.layer_end, 6U);
  EXPECT_GT(order.epoch, epoch_.value);
}

// --- beside plans --------------------------------------------------------------------------------

TEST_F(Deploy, a_ready_model_gets_a_second_home_where_it_has_only_one) {
  make_ready();
  // The coordinator's machine has the file: only its own layers would be lost with it.
  const auto order = pi_.expect<wire::FetchOrder>();
  EXPECT_TRUE(order.spare);
  EXPECT_EQ(order.epoch, 0U) << "no plan ends it";
  EXPECT_EQ(order.layer_begin, 0U);
  EXPECT_EQ(order.layer_end, 2U);
  EXPECT_EQ(mac_.count_until_answer<wire::FetchOrder>(), 0);
}

TEST_F(Deploy, who_holds_a_layer_already_is_its_second_home) {
  mac_.tell_inventory(cluster_.model(), cluster_.store().inventory(cluster_.model()));
  make_ready();
  for (TestNode* node : nodes_) EXPECT_EQ(node->count_until_answer<wire::FetchOrder>(), 0);
}

class Foreign : public Deploy {
 protected:
  // A model whose file lies on another machine.
  Foreign() {
    const auto file = cluster_.folder() / "foreign.gguf";
    model::TinyModel tiny = model::tiny_model("llama", 4);
    // Other weights than the first model's: equal pieces would be here already.
    for (auto& tensor : tiny.tensors) std::get<model::GivenData>(tensor.data).bytes[1] ^= 1;
    std::ofstream(file, std::ios::binary) << tiny.bytes();
    elsewhere_ = std::move(*store::PieceStore::open(cluster_.folder() / "elsewhere"));
    model_ = *elsewhere_->import_model(file, "foreign", {});
  }
  void catalogue_ends(const ModelId& model, const std::string& phase) {
    self_.send(wire::FetchProgress{.epoch = 0, .model = model.value, .phase = phase});
    (void)self_.ask("knows");
  }

  std::unique_ptr<store::PieceStore> elsewhere_;
  ModelId model_;
};

TEST_F(Foreign, its_catalogue_comes_here_and_its_weights_stay_there) {
  EXPECT_EQ(pi_.ask("knows", model_.value).error_code, "not_found");
  pi_.tell_inventory(model_, elsewhere_->inventory(model_));
  const auto order = self_.expect<wire::FetchOrder>();
  EXPECT_EQ(order.model, model_.value);
  EXPECT_EQ(order.layer_begin, order.layer_end) << "no layers: only know it";
  ASSERT_THAT(order.sources, SizeIs(1));
  EXPECT_EQ(order.sources[0].node, pi_.id().value);
  pi_.tell_inventory(model_, elsewhere_->inventory(model_));
  (void)pi_.ask("knows");
  EXPECT_EQ(self_.count_until_answer<wire::FetchOrder>(), 0) << "once is enough";

  ASSERT_TRUE(
      cluster_.store().put_model(*elsewhere_->entry(model_), *elsewhere_->skeleton(model_)));
  catalogue_ends(model_, "done");
  EXPECT_EQ(pi_.ask("knows", model_.value).error_code, "");
  const auto models = cluster_.coordinator().models();
  ASSERT_THAT(models, SizeIs(2));
  const ModelInfo& foreign = models[0].name == "foreign" ? models[0] : models[1];
  EXPECT_TRUE(foreign.complete);
  ASSERT_THAT(foreign.held, SizeIs(1));
  EXPECT_EQ(foreign.held[0].first, "bpi");

  LoadWish wish;
  wish.model = model_;
  wish.options.split = {1, 1, 2};
  wish.options.context_per_sequence = 64;
  wish.context_chosen = true;
  ASSERT_TRUE(cluster_.coordinator().load(wish));
  const auto fetch = mac_.expect<wire::FetchOrder>();
  EXPECT_EQ(fetch.layer_end - fetch.layer_begin, 2U);
  ASSERT_THAT(fetch.sources, SizeIs(1));
  EXPECT_EQ(fetch.sources[0].node, pi_.id().value) << "straight from there";
}

TEST_F(Foreign, a_catalogue_that_could_not_be_fetched_is_tried_with_the_next_news_of_it) {
  pi_.tell_inventory(model_, elsewhere_->inventory(model_));
  (void)self_.expect<wire::FetchOrder>();
  catalogue_ends(model_, "failed");
  EXPECT_EQ(self_.count_until_answer<wire::FetchOrder>(), 0) << "not at once";
  pi_.tell_inventory(model_, elsewhere_->inventory(model_));
  EXPECT_EQ(self_.expect<wire::FetchOrder>().model, model_.value);
}

TEST_F(Foreign, who_brings_many_models_does_not_make_us_fetch_all_at_once) {
  const auto pieces = elsewhere_->inventory(model_);
  for (int i = 10; i < 30; ++i) {
    pi_.tell_inventory(ModelId{std::string(62, 'a') + std::to_string(i)}, pieces);
  }
  (void)pi_.ask("knows");
  EXPECT_EQ(self_.count_until_answer<wire::FetchOrder>(), 8);
  self_.send(
      wire::FetchProgress{.epoch = 0, .model = std::string(62, 'a') + "10", .phase = "done"});
  EXPECT_EQ(self_.count_until_answer<wire::FetchOrder>(), 1) << "the next one's turn";
}

TEST_F(Foreign, an_inventory_of_no_digests_ends_the_link) {
  pi_.send(wire::Inventory{.model = "../../etc/passwd", .pieces = {"x"}});
  pi_.expect_closed();
  EXPECT_EQ(self_.count_until_answer<wire::FetchOrder>(), 0);
}

}  // namespace
}  // namespace salvage::coordinator
