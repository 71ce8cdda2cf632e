// Goal: what a stage is told to load survives the wire's words, and a peer's nonsense stops here.

#include "agent/load_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::agent {
namespace {

using ::testing::HasSubstr;

engine::StageOptions some_options() {
  engine::StageOptions options;
  options.weights = "/models/layers-0-10.gguf";
  options.embedding_table = "/models/embeddings.gguf";
  options.context_per_sequence = 8192;
  options.sequence_count_max = 4;
  options.rows_max = 256;
  options.logit_rows_max = 8;
  options.thread_count = 3;
  options.cores = {2, 3, 5};
  options.cache_type_k = CacheType::kF16;
  options.cache_type_v = CacheType::kQ8_0;
  options.exact = true;
  options.checkpoint_count = 12;
  return options;
}

wire::LoadStage some_order() {
  wire::LoadStage order;
  from_stage_options(some_options(), order);
  order.credits = 2;
  return order;
}

TEST(LoadOptions, survive_the_wire_s_words) {
  const auto back = to_stage_options(some_order());
  ASSERT_TRUE(back) << back.error().message();
  const engine::StageOptions options = some_options();
  EXPECT_EQ(back->weights, options.weights);
  EXPECT_EQ(back->embedding_table, options.embedding_table);
  EXPECT_EQ(back->context_per_sequence, options.context_per_sequence);
  EXPECT_EQ(back->sequence_count_max, options.sequence_count_max);
  EXPECT_EQ(back->rows_max, options.rows_max);
  EXPECT_EQ(back->logit_rows_max, options.logit_rows_max);
  EXPECT_EQ(back->thread_count, options.thread_count);
  EXPECT_EQ(back->cores, options.cores);
  EXPECT_EQ(back->cache_type_k, options.cache_type_k);
  EXPECT_EQ(back->cache_type_v, options.cache_type_v);
  EXPECT_EQ(back->exact, options.exact);
  EXPECT_EQ(back->checkpoint_count, options.checkpoint_count);
}

TEST(LoadOptions, out_of_range_are_refused_by_name) {
  const std::pair<const char*, std::uint32_t wire::LoadStage::*> fields[] = {
      {"thread_count", &wire::LoadStage::thread_count},
      {"sequence_count_max", &wire::LoadStage::sequence_count_max},
      {"context_per_sequence", &wire::LoadStage::context_per_sequence},
      {"rows_max", &wire::LoadStage::rows_max},
      {"logit_rows_max", &wire::LoadStage::logit_rows_max},
      {"credits", &wire::LoadStage::credits}};
  for (const auto& [name, field] : fields) {
    for (const std::uint32_t value : {0U, 0xFFFFFFFFU}) {
      wire::LoadStage order = some_order();
      order.*field = value;
      const auto options = to_stage_options(order);
      ASSERT_FALSE(options) << name << " = " << value;
      EXPECT_EQ(options.error().code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(options.error().message(), HasSubstr(name));
    }
  }
}

TEST(LoadOptions, an_order_without_checkpoints_is_one_of_an_older_version) {
  wire::LoadStage order = some_order();
  order.checkpoint_count = 0;
  const auto options = to_stage_options(order);
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->checkpoint_count, 0U);
  order.checkpoint_count = 0xFFFFFFFF;
  const auto refused = to_stage_options(order);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("checkpoint_count"));
}

TEST(LoadOptions, unknown_cache_types_are_refused) {
  wire::LoadStage order = some_order();
  order.cache_type_v = "q2_k";
  const auto options = to_stage_options(order);
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(options.error().message(), HasSubstr("q2_k"));
}

TEST(StageFacts, survive_the_wire_s_words) {
  engine::StageFacts facts;
  facts.architecture = "qwen3";
  facts.layers = {10, 20};
  facts.layer_count = 28;
  facts.takes_tokens = true;
  facts.gives_logits = true;
  facts.row_width_in = 1024;
  facts.row_width_out = 2048;
  facts.vocabulary_size = 151'936;
  facts.position_planes = 4;
  facts.can_trim = false;
  facts.rows_exact_max = 7;
  facts.kernel_fingerprint = "kernels";
  facts.memory = {1, 2, 3};
  facts.checkpoint_count = 4;
  facts.checkpoint_bytes = 5;
  const engine::StageFacts back = to_stage_facts(to_stage_loaded(facts));
  EXPECT_EQ(back.architecture, facts.architecture);
  EXPECT_EQ(back.layers, facts.layers);
  EXPECT_EQ(back.layer_count, facts.layer_count);
  EXPECT_EQ(back.takes_tokens, facts.takes_tokens);
  EXPECT_EQ(back.gives_logits, facts.gives_logits);
  EXPECT_EQ(back.row_width_in, facts.row_width_in);
  EXPECT_EQ(back.row_width_out, facts.row_width_out);
  EXPECT_EQ(back.vocabulary_size, facts.vocabulary_size);
  EXPECT_EQ(back.position_planes, facts.position_planes);
  EXPECT_EQ(back.can_trim, facts.can_trim);
  EXPECT_EQ(back.rows_exact_max, facts.rows_exact_max);
  EXPECT_EQ(back.kernel_fingerprint, facts.kernel_fingerprint);
  EXPECT_EQ(back.memory.weights_bytes, 1U);
  EXPECT_EQ(back.memory.kv_cache_bytes, 2U);
  EXPECT_EQ(back.memory.compute_bytes, 3U);
  EXPECT_EQ(back.checkpoint_count, 4U);
  EXPECT_EQ(back.checkpoint_bytes, 5U);
}

}  // namespace
}  // namespace salvage::agent
