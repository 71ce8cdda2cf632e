// Goal: keys that scripts rely on stay, unknown figures are absent, secrets never leave. Method:
// values with one thing set at a time.

#include "admin/info_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salvage::admin {
namespace {

using Json = nlohmann::ordered_json;

TEST(InfoJson, an_unknown_figure_is_absent_and_a_known_zero_is_not) {
  coordinator::ClusterInfo cluster;
  cluster.nodes.resize(1);
  Json node = to_json(cluster)["nodes"][0];
  EXPECT_FALSE(node["facts"].contains("memory_free_bytes"));
  EXPECT_FALSE(node.contains("address"));
  cluster.nodes[0].member.facts.memory_free_bytes = 0;
  cluster.nodes[0].address = "tls:10.0.0.2:7420";
  node = to_json(cluster)["nodes"][0];
  EXPECT_EQ(node["facts"]["memory_free_bytes"], 0);
  EXPECT_EQ(node["address"], "tls:10.0.0.2:7420");
}

TEST(InfoJson, an_invite_shows_its_code_once_and_its_hash_never) {
  coordinator::OpenInvite invite;
  invite.code = "slv1.abc";
  invite.invite.id = "77";
  invite.invite.secret_hash = "5ec4e7";
  EXPECT_EQ(to_json(invite)["code"], "slv1.abc");
  EXPECT_EQ(to_json(invite.invite)["id"], "77");
  EXPECT_EQ(to_json(invite).dump().find("5ec4e7"), std::string::npos);
  EXPECT_EQ(to_json(invite.invite).dump().find("slv1"), std::string::npos);
}

TEST(InfoJson, a_stage_tells_what_it_holds_only_once_it_is_loaded) {
  coordinator::DeploymentInfo deployment;
  deployment.stages.resize(1);
  deployment.stages[0].status.placed.layers = {2, 5};
  deployment.stages[0].weights_bytes = 9;
  Json stage = to_json(deployment)["stages"][0];
  EXPECT_EQ(stage["layers"], Json::array({2, 5}));
  EXPECT_FALSE(stage.contains("weights_bytes"));
  deployment.stages[0].status.state = cluster::StageState::kLoaded;
  stage = to_json(deployment)["stages"][0];
  EXPECT_EQ(stage["weights_bytes"], 9);
  EXPECT_FALSE(stage.contains("busy_us"));
  deployment.stages[0].counters.emplace();
  EXPECT_EQ(to_json(deployment)["stages"][0]["busy_us"], 0);
}

TEST(InfoJson, a_link_names_its_ends_and_no_load_that_nobody_knows) {
  coordinator::DeploymentInfo deployment;
  deployment.links.resize(1);
  deployment.links[0].from = "attic";
  deployment.links[0].to_stage = StageIndex{0};
  deployment.links[0].bytes_sent = 12;
  Json link = to_json(deployment)["links"][0];
  EXPECT_EQ(link["from"], "attic");
  EXPECT_TRUE(link["from_stage"].is_null()) << "the coordinator";
  EXPECT_EQ(link["to_stage"], 0);
  EXPECT_EQ(link["bytes_sent"], 12);
  for (const char* key : {"bytes_per_second", "load"}) {
    EXPECT_FALSE(link.contains(key)) << key;
  }
  deployment.links[0].load = 0;
  EXPECT_EQ(to_json(deployment)["links"][0]["load"], 0);
}

TEST(InfoJson, a_load_that_is_to_be_ordered_elsewhere_says_where_and_how) {
  LoadOutcome outcome{.model = {"77"}, .name = "m", .deployment = {}, .load_at = {}, .command = {}};
  EXPECT_FALSE(to_json(outcome).contains("load_at"));
  outcome.load_at = "attic (10.0.0.1:7420)";
  outcome.command = "salvage load m";
  EXPECT_EQ(to_json(outcome)["load_at"], "attic (10.0.0.1:7420)");
  EXPECT_EQ(to_json(outcome)["command"], "salvage load m");
}

TEST(InfoJson, an_answer_names_its_nodes_epoch_and_hash) {
  coordinator::RunOutcome outcome;
  outcome.deployment.stages.resize(2);
  outcome.deployment.stages[0].status.placed.name = "attic";
  outcome.deployment.stages[1].status.placed.name = "cellar";
  outcome.deployment.status.epoch = {7};
  Json json = to_json(outcome);
  EXPECT_EQ(json["nodes"], Json::array({"attic", "cellar"}));
  EXPECT_EQ(json["epoch"], 7);
  EXPECT_FALSE(json.contains("logits_hash"));
  outcome.generation.logits_hash = 0xAB;
  EXPECT_EQ(to_json(outcome)["logits_hash"], "00000000000000ab");
}

TEST(InfoJson, every_code_has_a_status_of_its_kind) {
  EXPECT_EQ(http_status(ErrorCode::kInvalidArgument), 400);
  EXPECT_EQ(http_status(ErrorCode::kUnsupported), 501);
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    EXPECT_GE(http_status(static_cast<ErrorCode>(i)), 400);
  }
}

}  // namespace
}  // namespace salvage::admin
