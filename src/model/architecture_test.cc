// Goal: cuts and stages are judged as the table and the pinned llama.cpp say. Method: tiny models
// of the architectures whose rules differ.

#include "model/architecture.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/tiny_model.h"

namespace salvage::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SplitRules rules_of(const TinyModel& tiny, Unproven unproven = Unproven::kRefuse) {
  const auto gguf = tiny.open();
  CHECK(gguf.has_value());
  const auto rules = split_rules(*gguf, unproven);
  CHECK(rules.has_value());
  return *rules;
}

std::string refusal_of_model(const TinyModel& tiny) {
  const auto gguf = tiny.open();
  CHECK(gguf.has_value());
  const auto rules = split_rules(*gguf);
  return rules ? "no error" : rules.error().message();
}

TEST(ArchitectureTable, has_each_architecture_once_and_a_reason_for_each_refusal) {
  std::set<std::string_view> names;
  for (const ArchitectureRow& row : architecture_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    if (row.proof == Proof::kRefused || row.proof == Proof::kNoModel) {
      EXPECT_FALSE(row.reason.empty()) << row.name;
    }
    EXPECT_EQ((row.treatments & kReplaceInput) != 0, !row.replace_tensor.empty()) << row.name;
  }
}

TEST(SplitRules, llama_may_be_cut_anywhere) {
  const SplitRules rules = rules_of(tiny_model("llama", 4));
  EXPECT_THAT(rules.cuts(), ElementsAre(1, 2, 3));
  const LayerRange split[] = {{0, 1}, {1, 4}};
  EXPECT_TRUE(rules.check_split(split));
  const LayerRange gap[] = {{0, 1}, {2, 4}};
  EXPECT_FALSE(rules.check_split(gap));
  const LayerRange early[] = {{0, 1}, {1, 3}};
  EXPECT_FALSE(rules.check_split(early));
  EXPECT_FALSE(rules.check_stage({2, 2}));
  EXPECT_FALSE(rules.check_stage({2, 5}));
}

TEST(SplitRules, window_patterns_are_cut_at_their_period) {
  EXPECT_THAT(rules_of(tiny_model("gemma2", 6)).cuts(), ElementsAre(2, 4));
  TinyModel with_key = tiny_model("gpt-oss", 6);
  with_key.set("attention.sliding_window_pattern", Value::u32(3));
  EXPECT_THAT(rules_of(with_key).cuts(), ElementsAre(3));
  // Without a window gemma3 has no pattern to respect.
  EXPECT_THAT(rules_of(tiny_model("gemma3", 4)).cuts(), ElementsAre(1, 2, 3));
  TinyModel gemma3 = tiny_model("gemma3", 13);
  gemma3.set("attention.sliding_window", Value::u32(16));
  EXPECT_THAT(rules_of(gemma3).cuts(), ElementsAre(6, 12));
}

TEST(SplitRules, several_steps_combine) {
  TinyModel tiny = tiny_model("llama4", 24);
  tiny.set("interleave_moe_layer_step", Value::u32(3));
  EXPECT_THAT(rules_of(tiny).cuts(), ElementsAre(12));
  tiny.set("interleave_moe_layer_step", Value::u32(7));
  EXPECT_THAT(rules_of(tiny).refusal, HasSubstr("no legal cut"));
}

TEST(SplitRules, hybrids_need_a_layer_of_each_kind_in_each_stage) {
  TinyModel tiny = tiny_model("qwen35", 8);  // layers 3 and 7 attend
  const SplitRules rules = rules_of(tiny);
  EXPECT_THAT(rules.cuts(), ElementsAre(4, 5, 6));
  EXPECT_FALSE(rules.check_stage({0, 3}));
  EXPECT_TRUE(rules.check_stage({0, 4}));
  EXPECT_FALSE(rules.check_stage({7, 8}));
  TinyModel heads = tiny_model("lfm2", 4);
  heads.set("attention.head_count_kv", Value::u32_array({0, 1, 0, 1}));
  EXPECT_THAT(rules_of(heads).cuts(), ElementsAre(2));
  EXPECT_THAT(recurrent_layers(*heads.open()), ElementsAre(true, false, true, false));
}

TEST(SplitRules, layer_counts_with_a_meaning_are_refused) {
  EXPECT_THAT(rules_of(tiny_model("baichuan", 40)).refusal, HasSubstr("baichuan of 40 layers"));
  EXPECT_FALSE(rules_of(tiny_model("baichuan", 45)).check_stage({0, 32}));
  EXPECT_TRUE(rules_of(tiny_model("baichuan", 45)).check_stage({0, 31}));
  EXPECT_FALSE(rules_of(tiny_model("command-r", 64)).splittable());
  EXPECT_FALSE(rules_of(tiny_model("deepseek2", 61)).check_stage({0, 27}));
  EXPECT_TRUE(rules_of(tiny_model("deepseek2", 27)).check_stage({0, 26}));
}

TEST(SplitRules, unproven_architectures_run_whole_only) {
  const SplitRules rules = rules_of(tiny_model("plm", 8));
  EXPECT_THAT(rules.refusal, HasSubstr("plm has not been proven exact"));
  EXPECT_THAT(rules.cuts(), IsEmpty());
  EXPECT_TRUE(rules.check_stage({0, 8}));
  EXPECT_EQ(rules.check_stage({0, 4}).error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(rules_of(tiny_model("plm", 3), Unproven::kAllow).cuts(), ElementsAre(1, 2));
  EXPECT_THAT(rules_of(tiny_model("gemma3n", 8), Unproven::kAllow).refusal, HasSubstr("streams"));
}

TEST(SplitRules, files_that_are_no_models_are_called_by_name) {
  EXPECT_THAT(refusal_of_model(tiny_model("bert", 2)), HasSubstr("embedding model"));
  EXPECT_THAT(refusal_of_model(tiny_model("t5", 2)), HasSubstr("encoder-decoder"));
  EXPECT_THAT(refusal_of_model(tiny_model("clip", 2)), HasSubstr("mmproj"));
  EXPECT_THAT(refusal_of_model(tiny_model("walrus", 2)), HasSubstr("\"walrus\" is not known"));
  TinyModel lora = tiny_model("llama", 2);
  lora.metadata.set("general.type", Value::string("adapter"));
  EXPECT_THAT(refusal_of_model(lora), HasSubstr("LoRA"));
  TinyModel nameless = tiny_model("llama", 2);
  nameless.metadata.erase("general.architecture");
  EXPECT_THAT(refusal_of_model(nameless), HasSubstr("general.architecture"));
}

TEST(SplitRules, absurd_layer_counts_are_refused) {
  for (const std::uint32_t count : {0U, 513U, UINT32_MAX}) {
    TinyModel tiny = tiny_model("llama", 2);
    tiny.set("block_count", Value::u32(count));
    EXPECT_THAT(refusal_of_model(tiny), HasSubstr("takes 1 to 512"));
  }
  TinyModel ahead = tiny_model("llama", 2);
  ahead.set("nextn_predict_layers", Value::u32(2));
  EXPECT_THAT(refusal_of_model(ahead), HasSubstr("guessing ahead"));
}

TEST(SplitRules, shared_indexers_are_cut_before_a_choosing_layer) {
  TinyModel tiny = tiny_model("glm-dsa", 6);
  tiny.set("attention.indexer.types", Value::u32_array({1, 0, 1, 0, 0, 1}));
  EXPECT_THAT(rules_of(tiny).cuts(), ElementsAre(2, 5));
  tiny.metadata.erase("glm-dsa.attention.indexer.types");
  tiny.set("context_length", Value::u32(1048576));
  EXPECT_THAT(rules_of(tiny).cuts(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace salvage::model
