// Goal: tables say what is known and nothing that isn't, also about machines of another version.
// Method: the program's JSON by hand.

#include "app/cluster_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/words.h"

namespace salvage::app {
namespace {

using testing::HasSubstr;

class Tables : public ::testing::Test {
 protected:
  void SetUp() override { set_language(Language::kEnglish); }
};

Json two_nodes() {
  return Json::parse(R"({"nodes":[
    {"id":"aaaaaaaaaaaaaaaa","name":"attic","state":"online","coordinator":true,"link":"wired",
     "address":"tls:10.0.0.1:40112","facts":{"cores":4,"memory_free_bytes":1073741824,
     "kernels":"avx2","version":"0.2.0","addresses":[]}},
    {"id":"bbbbbbbbbbbbbbbb","name":"pi","state":"lost","reason":"silent","facts":{"kernels":"neon",
     "addresses":[{"endpoint":"tls:10.0.0.2:7420","link":"wifi"}]}}]})");
}

TEST_F(Tables, a_machine_shows_its_address_and_the_kind_of_link) {
  const std::string table = nodes_table(two_nodes());
  EXPECT_THAT(table, HasSubstr("attic (coordinator)  aaaaaaaaaaaa  online"));
  EXPECT_THAT(table, HasSubstr("10.0.0.1:40112 (wired)"));
  EXPECT_THAT(table, HasSubstr("1.0 GiB"));
}

TEST_F(Tables, what_is_not_known_of_a_machine_is_a_dash_and_why_it_is_lost_is_said) {
  const std::string table = nodes_table(two_nodes());
  const std::string row = table.substr(table.find("\npi"));
  EXPECT_THAT(row, HasSubstr("lost: silent"));
  EXPECT_THAT(row, HasSubstr("10.0.0.2:7420"));
  EXPECT_THAT(row, HasSubstr("7420               -        -       -          -  -\n"));
}

TEST_F(Tables, other_kernels_are_named) {
  EXPECT_THAT(kernels_note(two_nodes()), HasSubstr("pi"));
  Json same = two_nodes();
  same["nodes"][1]["facts"]["kernels"] = "avx2";
  EXPECT_EQ(kernels_note(same), "");
}

TEST_F(Tables, a_deployment_shows_layers_load_and_what_is_not_promised) {
  const Json deployment = Json::parse(R"({"name":"m","state":"ready","context":4096,"epoch":3,
    "requests_running":1,"exact_conditions":["pi has other kernels"],
    "left_out":[{"name":"mac","reason":"no room"}],
    "stages":[{"index":0,"name":"attic","layers":[0,6],"state":"loaded","exact":true,"steps":10,
      "busy_us":50000,"busy":0.25},
     {"index":1,"name":"pi","layers":[6,8],"state":"fetching","fetched_bytes":1,
      "fetch_bytes":4}]})");
  const std::string text = deployment_text(deployment);
  EXPECT_THAT(text, HasSubstr("m: ready, context 4096, plan 3, 1 requests running"));
  EXPECT_THAT(text, HasSubstr("5.0 ms"));
  EXPECT_THAT(text, HasSubstr("25%"));
  EXPECT_THAT(text, HasSubstr("fetching 25%"));
  EXPECT_THAT(text, HasSubstr("not used: mac: no room"));
  EXPECT_THAT(text, HasSubstr("exact: no: pi has other kernels"));
}

TEST_F(Tables, a_link_shows_its_bytes_and_its_load) {
  const Json deployment = Json::parse(R"({"links":[
    {"from":"attic","to":"attic","from_stage":null,"to_stage":0,"bytes_sent":2000,
     "bytes_arrived":2000,"bytes_per_second":100.5},
    {"from":"attic","to":"pi","from_stage":0,"to_stage":1,"bytes_sent":5000000,
     "bytes_arrived":4900000,"bytes_per_second":1000000,"load":0.0909},
    {"from":"pi","to":"attic","from_stage":1,"to_stage":null,"bytes_sent":1,"bytes_arrived":1}]})");
  const std::string text = links_text(deployment);
  EXPECT_THAT(text, HasSubstr("coordinator, attic  stage 0, attic"));
  EXPECT_THAT(text, HasSubstr("stage 0, attic      stage 1, pi"));
  EXPECT_THAT(text, HasSubstr("stage 1, pi         coordinator, attic"));
  EXPECT_THAT(text, HasSubstr("5.0 MB   4.9 MB  1.0 MB/s    9%"));
  EXPECT_THAT(text, HasSubstr("2.0 KB   2.0 KB   100 B/s     -"))
      << "nobody counts that within a machine";
  EXPECT_EQ(links_text(Json::object()), "");
}

TEST_F(Tables, a_model_shows_who_holds_how_much) {
  const Json models = Json::parse(R"([{"name":"m","id":"cccccccccccccccc","bytes":3000,"layers":8,
    "loaded":true,"complete":false,"held":[{"node":"attic","bytes":2000}]}])");
  const std::string table = models_table(models);
  EXPECT_THAT(table, HasSubstr("cccccccccccc  3.0 KB       8  yes     no        attic 2.0 KB"));
}

TEST_F(Tables, places_come_without_scheme_and_node) {
  EXPECT_EQ(place_of("tls:10.0.0.1:7420/abc"), "10.0.0.1:7420");
  EXPECT_EQ(place_of("tls:[fd00::2]:7420"), "[fd00::2]:7420");
  EXPECT_EQ(place_of(""), "");
}

}  // namespace
}  // namespace salvage::app
