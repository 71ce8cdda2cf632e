// Goal: options survive the way to disk and back, and a damaged or foreign text is refused with the
// key's name and never believed.

#include "cluster/deployment_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::cluster {
namespace {

using ::testing::HasSubstr;

TEST(DeploymentOptions, survive_the_way_to_disk) {
  DeploymentOptions options;
  options.split = {6, 6, 4, 2};
  options.pins = {{NodeId{"aa"}, {.layer_count = 3}},
                  {NodeId{"bb"}, {.layer_count = 4, .layers = LayerRange{4, 8}}}};
  options.context_per_sequence = 32768;
  options.sequence_count = 4;
  options.rows_max = 64;
  options.logit_rows_max = 8;
  options.chunk_rows = 48;
  options.cache_type_k = CacheType::kF16;
  options.hidden_type = "q8";
  options.exact = true;
  options.thread_count = 3;
  const auto back = options_from_json(to_json(options));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, options);
  EXPECT_EQ(*options_from_json("{}"), DeploymentOptions{});
  EXPECT_EQ(*options_from_json(R"({"of_a_later_version": [1]})"), DeploymentOptions{});
}

TEST(DeploymentOptions, wrong_values_are_refused_by_name) {
  const auto said = [](std::string_view text) {
    const auto options = options_from_json(text);
    return options ? std::string("accepted") : options.error().message();
  };
  EXPECT_THAT(said(R"({"exact": 1})"), HasSubstr("\"exact\""));
  EXPECT_THAT(said(R"({"rows_max": -1})"), HasSubstr("\"rows_max\""));
  EXPECT_THAT(said(R"({"rows_max": 4294967296})"), HasSubstr("\"rows_max\""));
  EXPECT_THAT(said(R"({"split": [1, "2"]})"), HasSubstr("\"split\""));
  EXPECT_THAT(said(R"({"split": 3})"), HasSubstr("\"split\""));
  EXPECT_THAT(said(R"({"pins": {"a": [4, 4]}})"), HasSubstr("\"pins\""));
  EXPECT_THAT(said(R"({"pins": {"a": [4]}})"), HasSubstr("\"pins\""));
  EXPECT_THAT(said(R"({"pins": []})"), HasSubstr("\"pins\""));
  EXPECT_THAT(said(R"({"cache_type_k": "q2"})"), HasSubstr("\"cache_type_k\""));
  for (const char* const text : {"", "{", "[]", "3", "null", "{\"a\":\xff}"}) {
    EXPECT_NE(said(text), "accepted") << text;
  }
  EXPECT_NE(said(std::string(3 << 20, ' ')), "accepted");
}

TEST(Home, survives_the_way_to_disk) {
  const std::vector<HomeStage> home = {{NodeId{"aa"}, "first", {0, 4}},
                                       {NodeId{"bb"}, "书房", {4, 12}}};
  EXPECT_EQ(*home_from_json(to_json(home)), home);
  EXPECT_TRUE(home_from_json("")->empty()) << "as older versions left it";
  for (const char* const text :
       {"{}", "[1]", "[{}]", R"([{"node":"a"}])", R"([{"node":"","layers":[0,1]}])",
        R"([{"node":"a","layers":[1,0]}])", R"([{"node":1,"layers":[0,1]}])"}) {
    EXPECT_FALSE(home_from_json(text)) << text;
  }
}

TEST(ToPlacementRequest, carries_everything_that_costs_memory) {
  DeploymentOptions options;
  options.context_per_sequence = 999;
  options.sequence_count = 3;
  options.rows_max = 77;
  options.logit_rows_max = 5;
  options.cache_type_v = CacheType::kF16;
  options.split = {1, 2};
  const auto request = to_placement_request(options);
  EXPECT_EQ(request.need.context_per_sequence, 999);
  EXPECT_EQ(request.need.sequence_count, 3);
  EXPECT_EQ(request.need.rows_max, 77);
  EXPECT_EQ(request.need.logit_rows_max, 5);
  EXPECT_EQ(request.need.values, CacheType::kF16);
  EXPECT_EQ(request.split, options.split);
}

}  // namespace
}  // namespace salvage::cluster
