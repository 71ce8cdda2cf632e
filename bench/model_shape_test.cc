// Goal: a random model has the types that upstream's quantiser would choose, and weights of the
// promised scale in every type, equal for equal seeds.
// Method: hand-picked layers of known shapes; quantised bytes are read back with ggml's own
// dequantisers and their mean and deviation compared.

#include "model_shape.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "random_weights.h"

namespace salvage::bench {
namespace {

ModelShape small_shape() {
  ModelShape shape;
  shape.layer_count = 16;
  shape.vocabulary_size = 1000;
  return shape;
}

std::map<std::string, PlannedTensor> planned(const ModelShape& shape, std::string_view type) {
  std::map<std::string, PlannedTensor> by_name;
  const auto tensors = plan_tensors(shape, find_type_mix(type).value());
  for (const PlannedTensor& tensor : tensors.value()) {
    by_name.emplace(tensor.name, tensor);
  }
  return by_name;
}

TEST(ModelShape, q4_k_m_spends_more_bits_where_upstream_does) {
  const auto tensors = planned(small_shape(), "q4_k_m");
  EXPECT_EQ(tensors.at("token_embd.weight").type, GGML_TYPE_Q6_K);  // tied
  EXPECT_EQ(tensors.at("blk.0.attn_v.weight").type, GGML_TYPE_Q6_K);
  EXPECT_EQ(tensors.at("blk.2.ffn_down.weight").type, GGML_TYPE_Q4_K);
  EXPECT_EQ(tensors.at("blk.4.ffn_down.weight").type, GGML_TYPE_Q6_K);  // (4 - 16/8) % 3 == 2
  EXPECT_EQ(tensors.at("blk.15.attn_v.weight").type, GGML_TYPE_Q6_K);
  EXPECT_EQ(tensors.at("blk.0.ffn_up.weight").type, GGML_TYPE_Q4_K);
  EXPECT_EQ(tensors.at("blk.0.attn_norm.weight").type, GGML_TYPE_F32);
}

TEST(ModelShape, an_untied_model_has_an_output_matrix_and_a_smaller_table) {
  ModelShape shape = small_shape();
  EXPECT_FALSE(planned(shape, "q4_k_m").contains("output.weight"));
  shape.tied_embeddings = false;
  const auto tensors = planned(shape, "q4_k_m");
  EXPECT_EQ(tensors.at("output.weight").type, GGML_TYPE_Q6_K);
  EXPECT_EQ(tensors.at("token_embd.weight").type, GGML_TYPE_Q4_K);
}

TEST(ModelShape, rows_that_no_block_of_256_fits_take_the_smaller_blocks) {
  ModelShape shape = small_shape();
  shape.embedding_width = 576;
  const auto tensors = planned(shape, "q4_k_m");
  EXPECT_EQ(tensors.at("blk.0.attn_q.weight").type, GGML_TYPE_Q5_0);
  EXPECT_EQ(tensors.at("blk.0.attn_v.weight").type, GGML_TYPE_Q8_0);
  EXPECT_EQ(tensors.at("blk.0.attn_output.weight").type, GGML_TYPE_Q4_K);  // 2048 columns
}

TEST(ModelShape, each_architecture_has_its_own_small_tensors) {
  ModelShape shape = small_shape();
  EXPECT_TRUE(planned(shape, "f16").contains("blk.0.attn_q_norm.weight"));
  shape.architecture = "qwen2";
  EXPECT_TRUE(planned(shape, "f16").contains("blk.0.attn_q.bias"));
  shape.architecture = "llama";
  EXPECT_FALSE(planned(shape, "f16").contains("blk.0.attn_q.bias"));
}

TEST(ModelShape, impossible_shapes_are_refused) {
  const TypeMix mix = find_type_mix("f16").value();
  ModelShape shape = small_shape();
  shape.kv_head_count = 3;
  EXPECT_FALSE(plan_tensors(shape, mix));
  shape = small_shape();
  shape.feed_forward_width = 100;
  EXPECT_FALSE(plan_tensors(shape, mix));
  shape = small_shape();
  shape.layer_count = 0;
  EXPECT_FALSE(plan_tensors(shape, mix));
  EXPECT_FALSE(find_architecture("qwen9"));
  EXPECT_FALSE(find_type_mix("q9_k"));
}

class RandomWeightsOfType : public testing::TestWithParam<ggml_type> {};

TEST_P(RandomWeightsOfType, have_the_promised_scale) {
  const ggml_type type = GetParam();
  constexpr std::int64_t kCount = 1 << 16;
  constexpr float kSd = 0.03F;
  std::vector<std::byte> bytes(ggml_row_size(type, kCount));
  RandomWeights(7).fill_matrix(type, kSd, bytes);

  std::vector<float> values(kCount);
  const auto* const traits = ggml_get_type_traits(type);
  if (type == GGML_TYPE_F32) {
    std::copy_n(reinterpret_cast<const float*>(bytes.data()), kCount, values.begin());
  } else {
    traits->to_float(bytes.data(), values.data(), kCount);
  }
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.02 * kSd);
  EXPECT_NEAR(std::sqrt(squares / kCount) / kSd, 1.0, 0.03);
}

INSTANTIATE_TEST_SUITE_P(Types, RandomWeightsOfType,
                         testing::Values(GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0,
                                         GGML_TYPE_Q6_K, GGML_TYPE_Q4_K, GGML_TYPE_Q4_0,
                                         GGML_TYPE_IQ4_XS),
                         [](const auto& type) { return ggml_type_name(type.param); });

TEST(RandomWeights, equal_seeds_give_equal_bytes_and_others_do_not) {
  const auto made = [](std::uint64_t seed) {
    std::vector<std::byte> bytes(ggml_row_size(GGML_TYPE_Q4_0, 1024));
    RandomWeights(seed).fill_matrix(GGML_TYPE_Q4_0, 1.0F, bytes);
    return bytes;
  };
  EXPECT_EQ(made(1), made(1));
  EXPECT_NE(made(1), made(2));
}

}  // namespace
}  // namespace salvage::bench
