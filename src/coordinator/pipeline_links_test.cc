// Goal: each link shows the bytes of its own two ends, and the load that its sender knows.

#include "coordinator/pipeline_links.h"

#include <gtest/gtest.h>

namespace salvage::coordinator {
namespace {

TEST(PipelineLinks, are_one_more_than_the_stages_and_each_has_two_ends) {
  const Traffic coordinator{.node = "attic",
                            .bytes_in = 400,
                            .bytes_out = 100,
                            .recent = RecentRates::Rates{.bytes_out_per_second = 10}};
  const std::vector<Traffic> stages{
      {.node = "attic",
       .bytes_in = 100,
       .bytes_out = 2000,
       .recent = RecentRates::Rates{.busy = 0.5, .bytes_out_per_second = 250, .out_busy = 0.25}},
      {.node = "pi", .bytes_in = 1990, .bytes_out = 401, .recent = {}}};
  const auto links = pipeline_links(coordinator, stages);
  ASSERT_EQ(links.size(), 3);

  EXPECT_EQ(links[0].from, "attic");
  EXPECT_EQ(links[0].to, "attic");
  EXPECT_FALSE(links[0].from_stage) << "the coordinator";
  EXPECT_EQ(links[0].to_stage, StageIndex{0});
  EXPECT_EQ(links[0].bytes_sent, 100);
  EXPECT_EQ(links[0].bytes_arrived, 100);
  EXPECT_EQ(links[0].bytes_per_second, 10);
  EXPECT_FALSE(links[0].load) << "within a machine nobody counts that";

  EXPECT_EQ(links[1].from, "attic");
  EXPECT_EQ(links[1].to, "pi");
  EXPECT_EQ(links[1].bytes_sent, 2000);
  EXPECT_EQ(links[1].bytes_arrived, 1990) << "ten are under way";
  EXPECT_EQ(links[1].load, 0.25);

  EXPECT_EQ(links[2].to, "attic");
  EXPECT_EQ(links[2].from_stage, StageIndex{1});
  EXPECT_FALSE(links[2].to_stage);
  EXPECT_EQ(links[2].bytes_sent, 401);
  EXPECT_EQ(links[2].bytes_arrived, 400);
  EXPECT_FALSE(links[2].bytes_per_second) << "no news from its sender";
  EXPECT_FALSE(links[2].load);
}

TEST(PipelineLinks, there_are_none_without_stages) {
  EXPECT_TRUE(pipeline_links({}, {}).empty());
}

}  // namespace
}  // namespace salvage::coordinator
