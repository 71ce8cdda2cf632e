#include "mutation_catalogue.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "model/shard_facts.h"
#include "model/shard_keys.h"

namespace salvage::conformance {
namespace {

using Change = std::function<void(ShardContents&)>;

Change set_number(std::string key, std::uint32_t value) {
  return [=](ShardContents& shard) { shard.metadata.set(key, model::Value::u32(value)); };
}

Change set_real(std::string key, float value) {
  return [=](ShardContents& shard) { shard.metadata.set(key, model::Value::f32(value)); };
}

Change multiply_real(std::string key, double factor, double otherwise) {
  return [=](ShardContents& shard) {
    const double value = shard.metadata.real_value(key).value_or(otherwise);
    shard.metadata.set(key, model::Value::f32(static_cast<float>(value * factor)));
  };
}

Change erase_key(std::string key) {
  return [=](ShardContents& shard) {
    CHECK(shard.metadata.has(key));  // Else the mutation would change nothing.
    shard.metadata.erase(key);
  };
}

// A treatment that the shard's facts tell the engine to carry out.
Change change_facts(std::function<void(model::ShardFacts&)> change) {
  return [=](ShardContents& shard) {
    auto facts = model::read_shard_keys(shard.metadata);
    CHECK(facts && *facts);
    change(**facts);
    std::vector<std::string> keys;
    for (const auto& [key, value] : shard.metadata.entries()) {
      if (key.starts_with("salvage.shard.")) keys.push_back(key);
    }
    for (const std::string& key : keys) shard.metadata.erase(key);
    model::write_shard_keys(**facts, shard.metadata);
  };
}

model::OutputTensor& tensor_named(ShardContents& shard, const std::string& name) {
  for (model::OutputTensor& tensor : shard.tensors) {
    if (tensor.name == name) return tensor;
  }
  check_failed(__FILE__, __LINE__, "the shard has the tensor that its mutation names");
}

void swap_first_layers(ShardContents& shard) {
  for (model::OutputTensor& tensor : shard.tensors) {
    if (tensor.name.starts_with("blk.0.")) {
      tensor.name[4] = '1';
    } else if (tensor.name.starts_with("blk.1.")) {
      tensor.name[4] = '0';
    }
  }
}

// One weight of a matrix; an ulp would be rounded away when a row is summed up.
Change weight_by_a_hundredth(std::string name) {
  return [=](ShardContents& shard) {
    model::OutputTensor& tensor = tensor_named(shard, name);
    const model::TensorInfo* const info = shard.shard.find_tensor(name);
    CHECK(info != nullptr && info->type == model::TensorType::kF32);
    model::GivenData data;
    data.bytes.resize(info->bytes);
    CHECK(shard.shard.read(*info, 0, std::as_writable_bytes(std::span(data.bytes))));
    float weight = 0;
    std::memcpy(&weight, data.bytes.data(), sizeof weight);
    weight *= 1.01F;
    std::memcpy(data.bytes.data(), &weight, sizeof weight);
    tensor.data = std::move(data);
  };
}

// Puts back what the whole model's file has under this name.
Change tensor_as_in_whole(std::string name) {
  return [=](ShardContents& shard) {
    const model::TensorInfo* const info = shard.whole.find_tensor(name);
    CHECK(info != nullptr);
    tensor_named(shard, name) = model::copy_of(shard.whole, *info, name);
  };
}

// An array with one value a layer, as a shard would have it that only slices.
Change array_as_in_whole(std::string key, std::uint32_t begin) {
  return [=](ShardContents& shard) {
    const model::Value* const value = shard.whole.metadata().find(key);
    CHECK(value != nullptr && value->is_array());
    shard.metadata.set(key, value->slice(begin, value->count()));
  };
}

std::vector<Mutation> plain_mistakes() {
  return {
      {"RoPE base x 1.01", "llama-dense", 4, multiply_real("llama.rope.freq_base", 1.01, 10000)},
      {"attention window dropped", "gemma2-dense", 4,
       set_number("gemma2.attention.sliding_window", 4096)},
      {"attention window of 31 for 32", "gpt-oss-moe", 4,
       set_number("gpt-oss.attention.sliding_window", 31)},
      {"two layers swapped", "llama-dense", 4, swap_first_layers},
      {"one weight off by a hundredth", "llama-dense", 4,
       weight_by_a_hundredth("blk.1.ffn_down.weight")},
      {"one hidden state off by an ulp", "llama-dense", 4, {}, false, true},
      {"one hidden state off by an ulp", "qwen35moe-moe", 4, {}, false, true},
      {"norm epsilon x 1.1", "qwen3-dense", 4,
       multiply_real("qwen3.attention.layer_norm_rms_epsilon", 1.1, 1e-5)},
      {"one expert more", "qwen3moe-moe", 4, set_number("qwen3moe.expert_used_count", 2)},
  };
}

std::vector<Mutation> treatments_left_out() {
  return {
      {"embedding scale kept", "minicpm-dense", 4, set_real("minicpm.embedding_scale", 12.0F)},
      {"embedding scale kept", "granite-dense", 4, set_real("granite.embedding_scale", 12.0F)},
      {"residual scale by the shard's layer count", "minicpm-10", 5,
       erase_key("minicpm.residual_scale")},
      {"input scaled twice", "gemma-dense", 4,
       change_facts([](model::ShardFacts& facts) { facts.unscale_tensors.clear(); })},
      {"attention scale by the shard's layer count", "gemma3-27b", 30,
       change_facts([](model::ShardFacts& facts) { facts.scale_patches.clear(); })},
      {"positions added twice", "gpt2-dense", 4, tensor_as_in_whole("position_embd.weight")},
      {"head count as an array", "lfm2-dense", 3, array_as_in_whole("lfm2.attention.head_count", 3),
       false, false, true},
      {"recurrent layers by an interval", "qwen35-dense", 3,
       erase_key("qwen35.attention.recurrent_layers"), false, false, true},
      {"leading dense layers not counted down", "deepseek-moe", 4,
       set_number("deepseek.leading_dense_block_count", 1), false, false, true},
      {"attention window pattern of the first stage", "mimo2-moe", 3,
       [](ShardContents& shard) {
         const std::string key = "mimo2.attention.sliding_window_pattern";
         shard.metadata.set(key, shard.whole.metadata().find(key)->slice(0, 5));
       }},
  };
}

std::vector<Mutation> illegal_cuts() {
  return {
      {"cut off its period of 2", "gemma2-dense", 3, {}, true},
      {"cut off its period of 2", "gpt-oss-moe", 3, {}, true},
      {"cut off its period of 4", "smollm3-dense", 6, {}, true},
      {"cut off its period of 6", "gemma3-dense", 8, {}, true},
      {"a stage of 4 layers", "smallthinker-moe", 4, {}, true},
  };
}

}  // namespace

std::vector<Mutation> mutation_catalogue() {
  std::vector<Mutation> all;
  for (auto make : {plain_mistakes, treatments_left_out, illegal_cuts}) {
    for (Mutation& mutation : make()) all.push_back(std::move(mutation));
  }
  return all;
}

}  // namespace salvage::conformance
