// Goal: the manifest's figures are what libllama will allocate, and files on which it would assert
// are refused. Method: tiny models whose sums are done by hand.

#include "model/manifest.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/tiny_model.h"
#include "model/validate.h"

namespace salvage::model {
namespace {

using ::testing::HasSubstr;

Manifest manifest_of(const TinyModel& tiny) {
  const auto gguf = tiny.open();
  CHECK(gguf.has_value());
  auto manifest = read_manifest(*gguf);
  if (!manifest) ADD_FAILURE() << manifest.error().message();
  CHECK(manifest.has_value());
  return std::move(*manifest);
}

std::string problem_of(const TinyModel& tiny) {
  const auto gguf = tiny.open();
  CHECK(gguf.has_value());
  const auto valid = validate_for_engine(*gguf);
  return valid ? "no error" : valid.error().message();
}

TEST(Manifest, counts_bytes_of_layers_tables_and_types) {
  const Manifest manifest = manifest_of(tiny_model("llama", 3));
  constexpr std::uint64_t kLayer = 32 * 4 + 4 * 32 * 4;
  constexpr std::uint64_t kTable = 6 * 32 * 4;
  EXPECT_EQ(manifest.layers[1].weight_bytes, kLayer);
  EXPECT_EQ(manifest.embedding_bytes, kTable);
  EXPECT_EQ(manifest.output_bytes, kTable);
  EXPECT_FALSE(manifest.output_is_embedding);
  EXPECT_EQ(manifest.shared_bytes, 32 * 4);
  EXPECT_EQ(manifest.stage_bytes({1, 3}), 2 * kLayer + 32 * 4 + kTable);
  EXPECT_EQ(manifest.stage_bytes({0, 2}), 2 * kLayer + 32 * 4);
  ASSERT_EQ(manifest.types.size(), 1);
  EXPECT_EQ(manifest.types[0].type, "f32");
  EXPECT_EQ(manifest.types[0].tensor_count, 9);
}

TEST(Manifest, tells_text_facts) {
  const Manifest manifest = manifest_of(tiny_model("llama", 3));
  EXPECT_EQ(manifest.name, "tiny");
  EXPECT_EQ(manifest.tokenizer_model, "gpt2");
  EXPECT_TRUE(manifest.has_chat_template);
  EXPECT_EQ(manifest.vocabulary_size, 6);
  EXPECT_EQ(manifest.context_length, 256);
  EXPECT_TRUE(manifest.can_trim);
  EXPECT_EQ(manifest.position_planes, 1);
  EXPECT_TRUE(manifest.generation_problem.empty());
  EXPECT_EQ(manifest_of(tiny_model("qwen2vl", 2)).position_planes, 4);
  EXPECT_THAT(manifest_of(tiny_model("dream", 2)).generation_problem, HasSubstr("diffusion"));
}

TEST(Manifest, grouped_heads_keep_one_row_of_keys_and_one_of_values) {
  const Manifest manifest = manifest_of(tiny_model("llama", 3));  // 1 KV head of 16
  EXPECT_EQ(manifest.layers[0].cache_bytes_per_token(CacheType::kF16, CacheType::kF16), 16 * 2 * 2);
  EXPECT_EQ(manifest.layers[0].cache_bytes_per_token(CacheType::kQ8_0, CacheType::kF16), 34 + 32);
  EXPECT_EQ(manifest.cache_bytes_per_token(CacheType::kF16, CacheType::kF16), 3 * 64);
}

TEST(Manifest, latent_attention_keeps_keys_only) {
  TinyModel tiny = tiny_model("deepseek2", 2);
  tiny.set("attention.key_length", Value::u32(576));
  tiny.set("attention.value_length", Value::u32(512));
  tiny.set("attention.key_length_mla", Value::u32(192));
  tiny.set("attention.value_length_mla", Value::u32(128));
  EXPECT_EQ(manifest_of(tiny).layers[0].cache_bytes_per_token(CacheType::kF16, CacheType::kF16),
            576 * 2);
}

TEST(Manifest, recurrent_layers_keep_a_state_and_cannot_be_trimmed) {
  TinyModel tiny = tiny_model("qwen35", 4);
  tiny.set("ssm.conv_kernel", Value::u32(4));
  tiny.set("ssm.inner_size", Value::u32(64));
  tiny.set("ssm.state_size", Value::u32(8));
  tiny.set("ssm.group_count", Value::u32(2));
  const Manifest manifest = manifest_of(tiny);
  EXPECT_EQ(manifest.layers[0].state_bytes, (3 * (64 + 2 * 2 * 8) + 8 * 64) * 4);
  EXPECT_EQ(manifest.layers[0].key_values, 0);
  EXPECT_EQ(manifest.layers[3].state_bytes, 0);
  EXPECT_EQ(manifest.layers[3].key_values, 16);
  EXPECT_TRUE(manifest.hybrid && manifest.recurrent);
  EXPECT_FALSE(manifest.can_trim);
}

TEST(Manifest, windowed_layers_are_marked) {
  TinyModel tiny = tiny_model("gpt-oss", 4);
  tiny.set("attention.sliding_window", Value::u32(128));
  const Manifest manifest = manifest_of(tiny);
  EXPECT_EQ(manifest.window, 128);
  EXPECT_TRUE(manifest.layers[0].windowed && manifest.layers[2].windowed);
  EXPECT_FALSE(manifest.layers[1].windowed || manifest.layers[3].windowed);
}

TEST(Validate, values_on_which_libllama_asserts_are_found) {
  struct Case {
    std::string key;
    Value value;
    std::string says;
  };
  const Case cases[] = {
      {"embedding_length", Value::u32(0), "embedding_length"},
      {"embedding_length", Value::u32(64), "token_embd.weight is 32 wide"},
      {"context_length", Value::u32(0), "context_length"},
      {"attention.head_count", Value::u32(64), "64 heads with keys of 0"},
      {"attention.head_count", Value::u32_array({2}), "1 elements for 2 layers"},
      {"attention.head_count_kv", Value::u32(3), "doesn't divide"},
      {"attention.key_length", Value::u32(7), "rope.dimension_count is 7"},
      {"attention.value_length", Value::u32(8), "of one width"},
      {"rope.dimension_count", Value::u32(8), "of one width"},
      {"rope.dimension_count", Value::u32(64), "rope.dimension_count is 64"},
      {"rope.scaling.type", Value::string("spiral"), "spiral"},
      {"expert_count", Value::u32(8), "0 of 8 experts"},
      {"expert_count", Value::u32(2000), "2000 experts"},
      {"expert_used_count", Value::u32(2), "2 of 0 experts"},
      {"expert_group_count", Value::u32(2), "groups"},
      {"expert_gating_func", Value::u32(5), "expert_gating_func is 5"},
      {"attention.layer_norm_rms_epsilon", Value::f32(-1), "epsilon is -1"},
      {"attention.layer_norm_rms_epsilon", Value::f32(std::nanf("")), "epsilon is nan"},
      {"rope.freq_base", Value::f32(std::nanf("")), "rope.freq_base is nan"},
  };
  for (const Case& one : cases) {
    TinyModel tiny = tiny_model("llama", 2);
    tiny.set(one.key, one.value);
    EXPECT_THAT(problem_of(tiny), HasSubstr(one.says)) << one.key;
  }
  EXPECT_EQ(problem_of(tiny_model("llama", 2)), "no error");
}

// libllama's own writer puts every key into every file, zero where it means nothing.
TEST(Validate, a_divisor_counts_only_where_libllama_reads_it) {
  struct Case {
    std::string architecture;
    std::string key;
  };
  const Case cases[] = {{"qwen3next", "full_attention_interval"},
                        {"ernie4_5-moe", "interleave_moe_layer_step"},
                        {"mamba2", "ssm.time_step_rank"},
                        {"grovemoe", "experts_per_group"},
                        {"nanbeige", "num_loops"},
                        {"lfm2", "shortconv.l_cache"}};
  TinyModel llama = tiny_model("llama", 2);
  for (const Case& one : cases) {
    TinyModel tiny = tiny_model(one.architecture, 2);
    tiny.set(one.key, Value::u32(0));
    EXPECT_THAT(problem_of(tiny), HasSubstr(one.key + " is 0")) << one.architecture;
    llama.set(one.key, Value::u32(0));
  }
  EXPECT_EQ(problem_of(llama), "no error");
}

TEST(Validate, latent_attention_needs_keys_that_are_not_rotated) {
  TinyModel tiny = tiny_model("deepseek2", 2);
  tiny.set("rope.dimension_count", Value::u32(16));
  tiny.set("attention.key_length_mla", Value::u32(16));
  EXPECT_THAT(problem_of(tiny), HasSubstr("of which 16 are rotated"));
  tiny.set("attention.key_length_mla", Value::u32(24));
  EXPECT_EQ(problem_of(tiny), "no error");
}

TEST(Validate, a_temperature_needs_its_length) {
  TinyModel tiny = tiny_model("deepseek2", 2);
  tiny.set("attention.temperature_scale", Value::f32(0.1F));
  EXPECT_THAT(problem_of(tiny), HasSubstr("temperature_length zero"));
  tiny.set("attention.temperature_length", Value::u32(8192));
  EXPECT_EQ(problem_of(tiny), "no error");
}

TEST(Validate, a_vocabulary_with_one_token_twice_is_refused) {
  TinyModel tiny = tiny_model("llama", 2);
  tiny.metadata.set("tokenizer.ggml.tokens", Value::string_array({"a", "b", "a"}));
  EXPECT_THAT(problem_of(tiny), HasSubstr("twice"));
  tiny.metadata.set("tokenizer.ggml.tokens", Value::u32(1));
  EXPECT_THAT(problem_of(tiny), HasSubstr("not a list of strings"));
}

}  // namespace
}  // namespace salvage::model
