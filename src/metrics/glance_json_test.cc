// Goal: a page and `salvage top` find what they show, and nothing that isn't everybody's business.
// Method: a cluster by hand.

#include "metrics/glance_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "metrics/glance_fixture.h"

namespace salvage::metrics {
namespace {

using Json = nlohmann::ordered_json;

TEST(GlanceJson, machines_have_their_layers_and_what_they_do) {
  const Json json = to_json(glance_of_two());
  EXPECT_EQ(json["object"], "cluster");
  EXPECT_EQ(json["name"], "home");
  const Json& attic = json["machines"][0];
  EXPECT_EQ(attic["name"], "attic");
  EXPECT_EQ(attic["state"], "online");
  EXPECT_EQ(attic["coordinator"], true);
  EXPECT_EQ(attic["memory_total_bytes"], 1000);
  EXPECT_EQ(attic["memory_used_bytes"], 600);
  EXPECT_EQ(attic["stages_memory_bytes"], 300);
  EXPECT_EQ(attic["layers"], Json::parse(R"([{"model":"tiny","stage":0,"layers":[0,3]}])"));
  EXPECT_DOUBLE_EQ(attic["busy"], 0.4);
  EXPECT_DOUBLE_EQ(attic["sent_bytes_per_second"], 100.5);
  EXPECT_FALSE(attic.contains("received_bytes_per_second"));
  const Json& cellar = json["machines"][1];
  EXPECT_EQ(cellar["state"], "lost");
  EXPECT_FALSE(cellar.contains("memory_used_bytes")) << "nobody knows what is free there now";
}

TEST(GlanceJson, models_have_their_pipeline) {
  const Json json = to_json(glance_of_two());
  const Json& tiny = json["models"][0];
  EXPECT_EQ(tiny["state"], "ready");
  EXPECT_EQ(tiny["context"], 512);
  EXPECT_EQ(tiny["sequences"], 2);
  EXPECT_EQ(tiny["requests_queued"], 1);
  EXPECT_EQ(tiny["stages"][1]["machine"], "cellar \"2\"");
  EXPECT_EQ(tiny["stages"][1]["layers"], Json::parse("[3,6]"));
  EXPECT_DOUBLE_EQ(tiny["stages"][1]["bubble"], 0.5);
  EXPECT_EQ(tiny["links"][0]["bytes"], 4096);
  EXPECT_EQ(json["models"][1]["state"], "unloaded");
  EXPECT_FALSE(json["models"][1].contains("stages"));
}

TEST(GlanceJson, shows_neither_addresses_nor_ids_of_keys) {
  const std::string text = to_json(glance_of_two()).dump();
  for (const char* secret : {"192.168", "7420", "id-of-", "secret-kernels", "tls:"}) {
    EXPECT_EQ(text.find(secret), std::string::npos) << secret << " in " << text;
  }
}

TEST(GlanceJson, a_request_leaves_out_what_is_not_known) {
  RequestRecord record;
  record.facts.id = "req_1";
  record.facts.endpoint = api::Route::kChatCompletions;
  record.facts.model = "tiny";
  record.facts.prompt_tokens = 40;
  record.facts.machines = {"attic"};
  record.state = cluster::RequestState::kQueued;
  record.queue_place = 2;
  Json json = to_json(record);
  EXPECT_EQ(json["endpoint"], "/v1/chat/completions");
  EXPECT_EQ(json["state"], "queued");
  EXPECT_EQ(json["queue_place"], 2);
  EXPECT_EQ(json["machines"], Json::parse(R"(["attic"])"));
  for (const char* key : {"who", "finish", "error", "decode_tokens_per_second"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
  record.facts.command = "salvage run";
  record.facts.who = "key-00ff00ff";
  record.state = cluster::RequestState::kDecode;
  record.answer_tokens = 11;
  record.decode_ms = 2000;
  json = to_json(record);
  EXPECT_EQ(json["endpoint"], "salvage run");
  EXPECT_EQ(json["who"], "key-00ff00ff");
  EXPECT_DOUBLE_EQ(json["decode_tokens_per_second"], 5);
}

TEST(GlanceJson, a_list_of_requests_counts_those_under_way) {
  std::vector<RequestRecord> records(5);
  records[1].state = cluster::RequestState::kPrefill;
  records[2].state = cluster::RequestState::kDecode;
  records[3].state = cluster::RequestState::kDone;
  records[4].state = cluster::RequestState::kFailed;
  const Json json = requests_json(records);
  EXPECT_EQ(json["data"].size(), 5);
  EXPECT_EQ(json["queued"], 1);
  EXPECT_EQ(json["prefill"], 1);
  EXPECT_EQ(json["decode"], 1);
}

}  // namespace
}  // namespace salvage::metrics
