// Goal: an exact stage keeps every matrix whose repacked kernel moves bits out of the repacked
// buffer, and nothing else. Method: lists of tensor names and types.
#include "engine/llama/weight_placement.h"

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ggml.h>

namespace salvage::engine {
namespace {

using testing::IsEmpty;

model::TensorInfo tensor(const std::string& name, ggml_type type) {
  model::TensorInfo info;
  info.name = name;
  info.type = static_cast<model::TensorType>(type);
  return info;
}

bool stays_plain(const WeightPlacement& placement, const std::string& name) {
  for (const std::string& pattern : placement.plain) {
    if (std::regex_search(name, std::regex(pattern))) return true;
  }
  return false;
}

TEST(WeightPlacementTest, everything_is_repacked_by_default) {
  const std::vector tensors = {tensor("blk.0.attn_q.weight", GGML_TYPE_Q4_K)};
  const auto placement = place_weights(tensors, "llama", {});
  EXPECT_TRUE(placement.repack);
  EXPECT_THAT(placement.plain, IsEmpty());
  EXPECT_EQ(placement.rows_exact_max, 0U);
}

TEST(WeightPlacementTest, an_exact_stage_keeps_just_the_k_quants_plain) {
  const std::vector tensors = {tensor("blk.0.ffn_down.weight", GGML_TYPE_Q6_K),
                               tensor("blk.1.ffn_down.weight", GGML_TYPE_Q4_0),
                               tensor("blk.10.ffn_down.weight", GGML_TYPE_Q4_K),
                               tensor("blk.1.attn_q.weight", GGML_TYPE_Q8_0),
                               tensor("output.weight", GGML_TYPE_Q4_K)};
  StageOptions options;
  options.exact = true;
  const auto placement = place_weights(tensors, "llama", options);
  EXPECT_TRUE(placement.repack);
  EXPECT_TRUE(stays_plain(placement, "blk.0.ffn_down.weight"));
  EXPECT_TRUE(stays_plain(placement, "blk.10.ffn_down.weight"));
  EXPECT_TRUE(stays_plain(placement, "output.weight"));
  EXPECT_FALSE(stays_plain(placement, "blk.1.ffn_down.weight"));
  EXPECT_FALSE(stays_plain(placement, "blk.1.attn_q.weight"));
  EXPECT_FALSE(stays_plain(placement, "blk.1.attn_output.weight"));
}

TEST(WeightPlacementTest, names_that_look_like_patterns_match_only_themselves) {
  StageOptions options;
  options.exact = true;
  const std::vector tensors = {tensor("blk.0.a(b)*[c].weight", GGML_TYPE_Q4_K)};
  const auto placement = place_weights(tensors, "llama", options);
  EXPECT_TRUE(stays_plain(placement, "blk.0.a(b)*[c].weight"));
  EXPECT_FALSE(stays_plain(placement, "blk.0.abbc.weight"));
}

TEST(WeightPlacementTest, iq_types_limit_the_rows_that_are_exact) {
  const std::vector tensors = {tensor("blk.0.attn_q.weight", GGML_TYPE_IQ4_XS)};
  EXPECT_EQ(place_weights(tensors, "llama", {}).rows_exact_max, 7U);
  const std::vector others = {tensor("blk.0.attn_q.weight", GGML_TYPE_IQ4_NL)};
  EXPECT_EQ(place_weights(others, "llama", {}).rows_exact_max, 0U);
}

TEST(WeightPlacementTest, an_f16_cache_limits_the_rows_that_are_exact) {
  StageOptions options;
  options.cache_type_k = options.cache_type_v = CacheType::kF16;
  EXPECT_EQ(place_weights({}, "llama", options).rows_exact_max, 63U);
}

TEST(WeightPlacementTest, deepseek2_with_several_sequences_is_not_repacked) {
  StageOptions options;
  EXPECT_TRUE(place_weights({}, "deepseek2", options).repack);
  options.sequence_count_max = 2;
  EXPECT_FALSE(place_weights({}, "deepseek2", options).repack);
}

model::TensorInfo sized(const std::string& name, ggml_type type, std::uint64_t bytes) {
  model::TensorInfo info = tensor(name, type);
  info.bytes = bytes;
  return info;
}

TEST(ExactIsFreeTest, only_while_few_bytes_would_lose_their_kernels) {
  EXPECT_TRUE(exact_is_free(std::vector{sized("blk.0.ffn_up.weight", GGML_TYPE_Q4_0, 80),
                                        sized("blk.0.ffn_down.weight", GGML_TYPE_Q4_K, 20)}));
  EXPECT_FALSE(exact_is_free(std::vector{sized("blk.0.ffn_up.weight", GGML_TYPE_Q4_0, 79),
                                         sized("blk.0.ffn_down.weight", GGML_TYPE_Q4_K, 21)}));
}

TEST(ExactIsFreeTest, a_table_that_is_only_looked_up_does_not_count) {
  const std::vector untied = {sized("token_embd.weight", GGML_TYPE_Q8_0, 1000),
                              sized("output.weight", GGML_TYPE_Q4_K, 100)};
  EXPECT_FALSE(exact_is_free(untied));
}

TEST(ExactIsFreeTest, a_limit_on_rows_is_never_free) {
  EXPECT_FALSE(exact_is_free(std::vector{sized("blk.0.ffn_up.weight", GGML_TYPE_Q4_0, 1000),
                                         sized("blk.0.ffn_down.weight", GGML_TYPE_IQ4_XS, 1)}));
}

}  // namespace
}  // namespace salvage::engine
