// Goal: splits are legal, balanced, and impossible wishes are answered with the nearest possible
// one. Method: manifests made by hand.

#include "planner/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/memory.h"

namespace salvage::planner {
namespace {

using ::testing::HasSubstr;

model::Manifest manifest_of(std::uint32_t layer_count, std::uint32_t period) {
  model::Manifest manifest;
  manifest.architecture = "made-up";
  manifest.layer_count = layer_count;
  manifest.layers.resize(layer_count);
  for (auto& layer : manifest.layers) {
    layer.weight_bytes = 100;
    layer.key_values = layer.value_values = 32;
  }
  manifest.split.architecture = "made-up";
  manifest.split.layer_count = layer_count;
  manifest.split.layer_kinds.assign(layer_count, 0);
  for (std::uint32_t i = 0; i <= layer_count; ++i) {
    manifest.split.cut_legal.push_back(i % period == 0 || i == layer_count);
  }
  return manifest;
}

std::string split_of(const model::Manifest& manifest, std::uint32_t stage_count) {
  const auto stages = plan_split(manifest, stage_count);
  return stages ? split_text(*stages) : stages.error().message();
}

std::string split_of(const model::Manifest& manifest, std::vector<std::uint32_t> shares) {
  const auto stages = plan_split(manifest, shares);
  return stages ? split_text(*stages) : stages.error().message();
}

TEST(PlanSplit, equal_layers_give_equal_stages) {
  EXPECT_EQ(split_of(manifest_of(12, 1), 3), "4,4,4");
  EXPECT_EQ(split_of(manifest_of(12, 1), 1), "12");
  EXPECT_EQ(split_of(manifest_of(12, 1), 12), "1,1,1,1,1,1,1,1,1,1,1,1");
}

TEST(PlanSplit, a_light_output_matrix_leaves_the_layers_even) {
  model::Manifest manifest = manifest_of(12, 1);
  manifest.output_bytes = 400;  // even bytes would be 8,4: 800 each; 6,6 is 1000 at worst
  EXPECT_EQ(split_of(manifest, 2), "6,6");
}

TEST(PlanSplit, a_heavy_output_matrix_takes_layers_from_the_last_stage) {
  model::Manifest manifest = manifest_of(12, 1);
  manifest.output_bytes = 600;  // even bytes: 9,3 with 900; 1125 are allowed
  EXPECT_EQ(split_of(manifest, 2), "7,5");
}

TEST(PlanSplit, cuts_stay_legal) {
  EXPECT_EQ(split_of(manifest_of(26, 2), 4), "6,6,6,8");
  EXPECT_EQ(split_of(manifest_of(18, 6), 2), "6,12");
}

TEST(PlanSplit, an_impossible_count_names_the_nearest_split) {
  const std::string said = split_of(manifest_of(18, 6), 5);
  EXPECT_THAT(said, HasSubstr("cannot be cut into 5 stages"));
  EXPECT_THAT(said, HasSubstr("--split 6,6,6"));
  EXPECT_THAT(said, HasSubstr("legal cuts: 6 12"));
  EXPECT_THAT(split_of(manifest_of(4, 1), 9), HasSubstr("--split 1,1,1,1"));
  EXPECT_THAT(split_of(manifest_of(4, 1), 0), HasSubstr("from 1 to 64"));
  EXPECT_THAT(split_of(manifest_of(4, 1), 4000000000), HasSubstr("from 1 to 64"));
  EXPECT_THAT(split_of(manifest_of(4, 4), 2), HasSubstr("--stages 1"));
}

TEST(PlanSplit, kinds_of_layers_are_respected) {
  model::Manifest manifest = manifest_of(8, 1);
  manifest.split.layer_kinds = {2, 2, 2, 1, 2, 2, 2, 1};
  manifest.split.kinds_needed = 3;
  EXPECT_EQ(split_of(manifest, 2), "4,4");
  EXPECT_THAT(split_of(manifest, 3), HasSubstr("--split 4,4"));
}

TEST(PlanSplit, a_refused_model_runs_whole_and_says_why) {
  model::Manifest manifest = manifest_of(4, 1);
  manifest.split.refusal = "it has not been proven exact";
  EXPECT_EQ(split_of(manifest, 1), "4");
  EXPECT_THAT(split_of(manifest, 2), HasSubstr("has not been proven exact"));
}

TEST(PlanSplit, shares_that_add_up_are_layer_counts) {
  EXPECT_EQ(split_of(manifest_of(16, 1), {6, 6, 4}), "6,6,4");
  EXPECT_THAT(split_of(manifest_of(16, 4), {6, 6, 4}), HasSubstr("may not be cut at layer 6"));
  EXPECT_THAT(split_of(manifest_of(16, 4), {7, 5, 4}), HasSubstr("--split 8,4,4"));
}

TEST(PlanSplit, other_shares_are_proportions) {
  EXPECT_EQ(split_of(manifest_of(30, 1), {2, 1}), "20,10");
  EXPECT_EQ(split_of(manifest_of(30, 1), {1, 1, 2}), "7,8,15");
  EXPECT_EQ(split_of(manifest_of(30, 6), {50, 50, 1000}), "6,6,18");
  EXPECT_THAT(split_of(manifest_of(30, 1), {3, 0}), HasSubstr("share of 0"));
}

TEST(MemoryNeeded, counts_weights_caches_and_work) {
  model::Manifest manifest = manifest_of(4, 1);
  manifest.shared_bytes = 10;
  manifest.output_bytes = 1000;
  const MemoryNeed first =
      memory_needed(manifest, {.layers = {0, 2}, .context_per_sequence = 1000});
  EXPECT_EQ(first.weight_bytes, 210);
  EXPECT_EQ(first.cache_bytes, 2 * 1024 * 68);
  EXPECT_EQ(memory_needed(manifest, {.layers = {2, 4}}).weight_bytes, 1210);
  const MemoryNeed four = memory_needed(
      manifest, {.layers = {0, 2}, .context_per_sequence = 1000, .sequence_count = 4});
  EXPECT_EQ(four.cache_bytes, 4 * first.cache_bytes);
}

TEST(MemoryNeeded, windows_save_nothing_and_states_have_a_fixed_size) {
  model::Manifest manifest = manifest_of(2, 1);
  manifest.window = 128;
  manifest.layers[0].windowed = true;
  manifest.layers[1] = {.weight_bytes = 100, .recurrent = true, .state_bytes = 5000};
  const MemoryNeed need = memory_needed(
      manifest, {.layers = {0, 2}, .context_per_sequence = 8192, .sequence_count = 2});
  EXPECT_EQ(need.cache_bytes, 2 * (8192 * 68 + 5000));
}

TEST(Checkpoints, take_room_of_their_own_and_an_eighth_of_the_weights_at_most) {
  model::Manifest manifest = manifest_of(2, 1);
  EXPECT_EQ(checkpoints_wanted(manifest, 4), 0) << "what can be cut back needs none";
  manifest.can_trim = false;
  EXPECT_EQ(checkpoints_wanted(manifest, 4), 0) << "of unknown size";
  manifest.layers[1].state_bytes = 5000;
  EXPECT_EQ(checkpoints_wanted(manifest, 2), 16);
  EXPECT_EQ(checkpoints_wanted(manifest, 64), 128);
  const MemoryRequest none = {.layers = {0, 2}};
  MemoryRequest some = none;
  some.checkpoint_count = 16;
  EXPECT_EQ(memory_needed(manifest, some).cache_bytes,
            memory_needed(manifest, none).cache_bytes + 16 * 5000);
  manifest.layers[1].state_bytes = std::uint64_t{10} << 20;
  EXPECT_EQ(checkpoints_wanted(manifest, 4), 6) << "64 MiB";
  manifest.layers[0].weight_bytes = std::uint64_t{1600} << 20;
  EXPECT_EQ(checkpoints_wanted(manifest, 4), 20);
}

TEST(LargestContext, fits_and_is_the_largest) {
  const model::Manifest manifest = manifest_of(4, 1);
  MemoryRequest request = {.layers = {0, 4}, .context_per_sequence = 100'000};
  const std::uint64_t available = std::uint64_t{60} << 20;
  const std::uint32_t context = largest_context_that_fits(manifest, request, available);
  ASSERT_GT(context, 0);
  request.context_per_sequence = context;
  EXPECT_LE(memory_needed(manifest, request).total_bytes(), available);
  request.context_per_sequence = context + 256;
  EXPECT_GT(memory_needed(manifest, request).total_bytes(), available);
  EXPECT_EQ(largest_context_that_fits(manifest, request, 1000), 0);
}

}  // namespace
}  // namespace salvage::planner
