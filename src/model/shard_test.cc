// Goal: shards hold exactly the wanted layers under the names that libllama looks for, with the
// treatments of the table, and are written whole or not at all. Method: tiny models in memory and
// in a temporary folder; tests/conformance proves that the results compute the same bits.

#include "model/shard.h"

#include <cmath>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "model/shard_keys.h"
#include "model/shard_plan.h"
#include "model/tiny_model.h"

namespace salvage::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

const std::string kDigest(64, 'd');

// A shard as it reads back from its own bytes.
struct Made {
  Gguf gguf;
  ShardFacts facts;
  std::uint64_t number(const std::string& suffix) const {
    return gguf.metadata().unsigned_value(architecture_key(gguf, suffix)).value_or(999);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const TensorInfo& tensor : gguf.tensors()) result.push_back(tensor.name);
    return result;
  }
  std::string data(const std::string& name) const {
    const TensorInfo* const tensor = gguf.find_tensor(name);
    CHECK(tensor != nullptr);
    std::string bytes(tensor->bytes, '\0');
    CHECK(gguf.read(*tensor, 0, std::as_writable_bytes(std::span(bytes))).has_value());
    return bytes;
  }
};

Result<Made> try_make(const TinyModel& tiny, LayerRange layers) {
  ASSIGN_OR_RETURN(const Gguf model, tiny.open());
  ASSIGN_OR_RETURN(const SplitRules rules, split_rules(model, Unproven::kAllow));
  ASSIGN_OR_RETURN(const FilePlan plan, plan_shard(model, layers, rules, kDigest));
  MemorySink sink;
  RETURN_IF_ERROR(write_gguf(plan.metadata, plan.tensors, sink, {}));
  ASSIGN_OR_RETURN(const std::uint64_t announced, gguf_bytes(plan.metadata, plan.tensors));
  EXPECT_EQ(announced, sink.bytes().size());
  ASSIGN_OR_RETURN(Gguf shard, TinyModel::open_bytes(sink.bytes()));
  ASSIGN_OR_RETURN(const auto facts, read_shard_facts(shard));
  CHECK(facts.has_value());
  return Made{std::move(shard), *facts};
}

Made make(const TinyModel& tiny, LayerRange layers) {
  auto made = try_make(tiny, layers);
  if (!made) ADD_FAILURE() << made.error().message();
  CHECK(made.has_value());
  return std::move(*made);
}

bool all_zero(const std::string& bytes) {
  return bytes.find_first_not_of('\0') == std::string::npos;
}

TEST(Shard, a_middle_shard_has_its_layers_renamed_and_no_vocabulary) {
  const TinyModel tiny = tiny_model("llama", 4);
  const Made made = make(tiny, {1, 3});
  EXPECT_THAT(made.names(),
              UnorderedElementsAre("token_embd.weight", "output_norm.weight", "output.weight",
                                   "blk.0.attn_norm.weight", "blk.0.ffn_up.weight",
                                   "blk.1.attn_norm.weight", "blk.1.ffn_up.weight"));
  EXPECT_EQ(made.number("block_count"), 2);
  EXPECT_EQ(made.number("vocab_size"), 4);
  EXPECT_EQ(made.gguf.metadata().text_value("tokenizer.ggml.model"), "no_vocab");
  EXPECT_FALSE(made.gguf.metadata().has("tokenizer.ggml.tokens"));
  EXPECT_TRUE(all_zero(made.data("token_embd.weight")));
  EXPECT_EQ(made.gguf.find_tensor("output.weight")->shape[1], 4);
  const auto& source = std::get<GivenData>(tiny.tensors[3 + 2 * 2].data);
  EXPECT_EQ(made.data("blk.1.attn_norm.weight"), source.bytes);
}

TEST(Shard, facts_say_how_to_feed_it_and_survive_the_file) {
  const Made made = make(tiny_model("llama", 4), {1, 3});
  EXPECT_EQ(made.facts.architecture, "llama");
  EXPECT_EQ(made.facts.model_digest, kDigest);
  EXPECT_EQ(made.facts.layers, (LayerRange{1, 3}));
  EXPECT_EQ(made.facts.layer_count, 4);
  EXPECT_EQ(made.facts.input, ShardInput::kHidden);
  EXPECT_EQ(made.facts.output_tensor, "l_out-1");
  EXPECT_EQ(made.facts.row_width_in, 32);
  EXPECT_EQ(made.facts.row_width_out, 32);
  EXPECT_EQ(made.facts.vocabulary_size, 6);
}

TEST(Shard, the_last_shard_keeps_the_head_and_a_table_only_if_tied) {
  TinyModel tiny = tiny_model("llama", 4);
  const Made untied = make(tiny, {3, 4});
  EXPECT_TRUE(untied.facts.output_tensor.empty());
  EXPECT_EQ(untied.facts.row_width_out, 0);
  EXPECT_EQ(untied.number("vocab_size"), 6);
  EXPECT_TRUE(all_zero(untied.data("token_embd.weight")));
  EXPECT_EQ(untied.gguf.find_tensor("token_embd.weight")->shape[1], 6);
  EXPECT_FALSE(all_zero(untied.data("output.weight")));
  tiny.remove("output.weight");
  const Made tied = make(tiny, {3, 4});
  EXPECT_EQ(tied.data("token_embd.weight"), std::get<GivenData>(tiny.tensors[0].data).bytes);
}

TEST(Shard, the_whole_range_works_too) {
  const Made made = make(tiny_model("llama", 4), {0, 4});
  EXPECT_TRUE(made.facts.first() && made.facts.last());
  EXPECT_EQ(made.number("block_count"), 4);
}

TEST(Shard, arrays_with_one_element_a_layer_are_cut) {
  TinyModel tiny = tiny_model("llama", 4);
  tiny.set("feed_forward_length", Value::u32_array({10, 11, 12, 13}));
  tiny.set("rope.dimension_sections", Value::u32_array({1, 2, 3, 4}));
  const Made made = make(tiny, {1, 3});
  const Value* const cut = made.gguf.metadata().find("llama.feed_forward_length");
  ASSERT_EQ(cut->count(), 2);
  EXPECT_EQ(cut->unsigned_at(0), 11);
  EXPECT_EQ(made.gguf.metadata().find("llama.rope.dimension_sections")->count(), 4);
}

TEST(Shard, dense_leading_layers_and_guessing_layers_are_counted) {
  TinyModel tiny = tiny_model("glm4moe", 4);
  tiny.set("leading_dense_block_count", Value::u32(2));
  tiny.set("nextn_predict_layers", Value::u32(1));
  EXPECT_EQ(make(tiny, {0, 1}).number("leading_dense_block_count"), 1);
  EXPECT_EQ(make(tiny, {1, 3}).number("leading_dense_block_count"), 1);
  const Made last = make(tiny, {2, 3});
  EXPECT_EQ(last.number("leading_dense_block_count"), 0);
  EXPECT_EQ(last.number("nextn_predict_layers"), 0);
  EXPECT_TRUE(last.facts.last());
  EXPECT_EQ(last.gguf.find_tensor("blk.1.attn_norm.weight"), nullptr);
}

TEST(Shard, scales_that_belong_to_the_input_are_undone_in_later_shards) {
  const TinyModel minicpm = tiny_model("minicpm", 4);
  const Made first = make(minicpm, {0, 2});
  const Made later = make(minicpm, {2, 4});
  EXPECT_FALSE(first.gguf.metadata().has("minicpm.embedding_scale"));
  EXPECT_EQ(later.gguf.metadata().real_value("minicpm.embedding_scale"), 0.0);
  for (const Made* const made : {&first, &later}) {
    EXPECT_EQ(made->gguf.metadata().real_value("minicpm.residual_scale"), double{1.4F / 2.0F});
  }
  EXPECT_THAT(make(tiny_model("gemma", 4), {2, 4}).facts.unscale_tensors,
              ElementsAre("inp_scaled"));
  EXPECT_TRUE(make(tiny_model("gemma", 4), {0, 2}).facts.unscale_tensors.empty());
  EXPECT_THAT(make(tiny_model("gemma3", 4), {0, 2}).facts.scale_patches,
              ElementsAre(ScalePatch{"inp_scaled", false, std::sqrt(32.0F)}));
  EXPECT_TRUE(make(tiny_model("gemma3", 4), {2, 4}).facts.scale_patches.empty());
}

TEST(Shard, values_that_come_from_the_layer_count_are_kept) {
  const Made minicpm3 = make(tiny_model("minicpm3", 4), {1, 2});
  EXPECT_THAT(minicpm3.facts.scale_patches,
              ElementsAre(ScalePatch{"hidden_scaled-0", false, 0.7F},
                          ScalePatch{"hidden_scaled_ffn-0", false, 0.7F}));
  TinyModel gemma = tiny_model("gemma2", 46);
  gemma.set("attention.key_length", Value::u32(64));
  const Made shard = make(gemma, {0, 2});
  ASSERT_EQ(shard.facts.scale_patches.size(), 2);
  EXPECT_EQ(shard.facts.scale_patches[1], (ScalePatch{"Qcur-1", true, 0.25F}));
  const Made lite = make(tiny_model("deepseek2", 27), {0, 5});
  EXPECT_EQ(lite.number("attention.q_lora_rank"), 0);
  EXPECT_EQ(lite.number("expert_gating_func"), 1);
  EXPECT_EQ(make(tiny_model("deepseek2", 8), {0, 5}).number("attention.q_lora_rank"), 999);
}

TEST(Shard, position_tables_are_zero_or_left_out_in_later_shards) {
  TinyModel gpt2 = tiny_model("gpt2", 2);
  gpt2.add("position_embd.weight", 32, 8);
  EXPECT_FALSE(all_zero(make(gpt2, {0, 1}).data("position_embd.weight")));
  EXPECT_TRUE(all_zero(make(gpt2, {1, 2}).data("position_embd.weight")));
  TinyModel mpt = tiny_model("mpt", 2);
  mpt.add("position_embd.weight", 32, 8);
  EXPECT_EQ(make(mpt, {1, 2}).gguf.find_tensor("position_embd.weight"), nullptr);
}

TEST(Shard, special_inputs_are_described) {
  const TinyModel cogvlm = tiny_model("cogvlm", 2);
  const Made first = make(cogvlm, {0, 1});
  EXPECT_EQ(first.facts.input, ShardInput::kTokens);
  EXPECT_FALSE(all_zero(first.data("token_embd.weight")));
  EXPECT_EQ(make(cogvlm, {1, 2}).facts.input, ShardInput::kReplace);
  EXPECT_EQ(make(cogvlm, {1, 2}).facts.replace_tensor, "embd");
  TinyModel deepstack = tiny_model("qwen3vl", 2);
  deepstack.set("n_deepstack_layers", Value::u32(3));
  EXPECT_EQ(make(deepstack, {0, 1}).facts.row_width_in, 4 * 32);
  EXPECT_EQ(make(deepstack, {1, 2}).facts.row_width_in, 32);
  EXPECT_EQ(make(deepstack, {1, 2}).number("n_deepstack_layers"), 0);
}

TEST(Shard, hybrids_say_which_layers_are_recurrent) {
  const Made made = make(tiny_model("qwen35", 8), {2, 8});
  const Value* const list = made.gguf.metadata().find("qwen35.attention.recurrent_layers");
  ASSERT_EQ(list->count(), 6);
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 6; ++i) values.push_back(*list->unsigned_at(i));
  EXPECT_THAT(values, ElementsAre(1, 0, 1, 1, 1, 0));
  TinyModel lfm2 = tiny_model("lfm2", 4);
  lfm2.set("attention.head_count", Value::u32_array({0, 2, 0, 2}));
  lfm2.set("attention.head_count_kv", Value::u32_array({0, 1, 0, 1}));
  EXPECT_EQ(make(lfm2, {2, 4}).number("attention.head_count"), 2);
}

TEST(Shard, incomplete_models_are_refused) {
  const auto said = [](const TinyModel& tiny) {
    const auto made = try_make(tiny, {0, 1});
    return made ? "no error" : made.error().message();
  };
  TinyModel tiny = tiny_model("llama", 2);
  tiny.remove("blk.1.attn_norm.weight");
  tiny.remove("blk.1.ffn_up.weight");
  EXPECT_THAT(said(tiny), HasSubstr("layer 1 has no tensors"));
  tiny = tiny_model("llama", 2);
  tiny.remove("token_embd.weight");
  EXPECT_THAT(said(tiny), HasSubstr("token_embd.weight"));
  tiny = tiny_model("llama", 2);
  tiny.add("blk.7.attn_norm.weight", 32, 1);
  EXPECT_THAT(said(tiny), HasSubstr("none of 2 layers"));
}

TEST(Shard, layers_out_of_range_and_shards_of_shards_are_refused) {
  const TinyModel tiny = tiny_model("llama", 2);
  EXPECT_FALSE(try_make(tiny, {1, 1}));
  EXPECT_FALSE(try_make(tiny, {1, 3}));
  TinyModel shard = tiny_model("llama", 2);
  write_shard_keys(shard_facts(*tiny.open(), {0, 1}, *split_rules(*tiny.open()), kDigest),
                   shard.metadata);
  EXPECT_THAT(try_make(shard, {0, 1}).error().message(), HasSubstr("is a shard"));
}

TEST(ShardKeys, contradicting_facts_are_refused) {
  const Made good = make(tiny_model("llama", 4), {1, 3});
  const auto said = [&](std::string_view key, const Value& value) {
    Metadata metadata = good.gguf.metadata();
    metadata.set(key, value);
    const auto facts = read_shard_keys(metadata);
    return facts ? "no error" : facts.error().message();
  };
  EXPECT_THAT(said("salvage.shard.version", Value::u32(2)), HasSubstr("make the shard again"));
  EXPECT_THAT(said("salvage.shard.layer_end", Value::u32(5)), HasSubstr("layer_end"));
  EXPECT_THAT(said("salvage.shard.layer_begin", Value::u32(3)), HasSubstr("layer_end"));
  EXPECT_THAT(said("salvage.shard.input", Value::string("magic")), HasSubstr("input"));
  EXPECT_THAT(said("salvage.shard.input", Value::string("replace")), HasSubstr("replace_tensor"));
  EXPECT_THAT(said("salvage.shard.row_width_in", Value::u32(0)), HasSubstr("row_width_in"));
  EXPECT_THAT(said("salvage.shard.output_tensor", Value::string("")), HasSubstr("output_tensor"));
  EXPECT_FALSE(read_shard_keys(tiny_model("llama", 1).metadata)->has_value());
}

class ShardFiles : public ::testing::Test {
 protected:
  ShardFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "salvage-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    AtomicFile file = std::move(*AtomicFile::create(folder_ / "m.gguf", 0));
    const std::string bytes = tiny_model("llama", 4).bytes();
    CHECK(file.write(std::as_bytes(std::span(bytes))).has_value() && file.commit().has_value());
  }
  ~ShardFiles() override { std::filesystem::remove_all(folder_); }
  Gguf model() const { return std::move(*Gguf::open(folder_ / "m.gguf")); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  std::filesystem::path folder_;
};

TEST_F(ShardFiles, shards_tables_and_vocabularies_can_be_opened) {
  double last = 0;
  const ShardOptions options = {.progress = [&](double share) {
    EXPECT_GE(share, last);
    last = share;
    return true;
  }};
  ASSERT_TRUE(write_shard(model(), {1, 3}, folder_ / "s.gguf", options));
  EXPECT_EQ(last, 1.0);
  EXPECT_EQ(*shard_bytes(model(), {1, 3}), std::filesystem::file_size(folder_ / "s.gguf"));
  const auto facts = read_shard_facts(*Gguf::open(folder_ / "s.gguf"));
  ASSERT_TRUE(facts && facts->has_value());
  EXPECT_EQ((*facts)->model_digest, *model_digest(model()));

  ASSERT_TRUE(write_embedding_table(model(), folder_ / "t.gguf"));
  EXPECT_EQ(Gguf::open(folder_ / "t.gguf")->tensors().size(), 1);
  ASSERT_TRUE(write_vocabulary(model(), folder_ / "v.gguf"));
  const auto vocabulary = Gguf::open(folder_ / "v.gguf");
  EXPECT_EQ(vocabulary->tensors().size(), 0);
  EXPECT_EQ(vocabulary->metadata().entries(), model().metadata().entries());
}

TEST_F(ShardFiles, a_stopped_shard_leaves_nothing_behind) {
  const auto stopped =
      write_shard(model(), {1, 3}, folder_ / "s.gguf", {.progress = [](double) { return false; }});
  EXPECT_EQ(stopped.error().code(), ErrorCode::kCancelled);
  EXPECT_THAT(files(), ElementsAre("m.gguf"));
}

TEST_F(ShardFiles, the_model_itself_and_impossible_paths_are_no_outputs) {
  EXPECT_THAT(write_shard(model(), {1, 3}, folder_ / "m.gguf").error().message(),
              HasSubstr("the model itself"));
  EXPECT_EQ(write_shard(model(), {1, 3}, folder_ / "no" / "s.gguf").error().code(),
            ErrorCode::kNotFound);
  EXPECT_EQ(write_shard(model(), {1, 3}, folder_).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(write_shard(model(), {1, 3}, "/dev/null").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(files(), ElementsAre("m.gguf"));
}

TEST(Digest, tells_models_apart_by_content) {
  TinyModel tiny = tiny_model("llama", 2);
  const std::string digest = *model_digest(*tiny.open());
  EXPECT_EQ(digest, *model_digest(*tiny.open()));
  tiny.metadata.set("split.count", Value::u32(1));
  EXPECT_EQ(digest, *model_digest(*tiny.open()));
  tiny.metadata.set("general.name", Value::string("other"));
  EXPECT_NE(digest, *model_digest(*tiny.open()));
  tiny = tiny_model("llama", 2);
  std::get<GivenData>(tiny.tensors[4].data).bytes[7] ^= 1;
  EXPECT_NE(digest, *model_digest(*tiny.open()));
}

}  // namespace
}  // namespace salvage::model
