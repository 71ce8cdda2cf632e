// A shard holds layers [a, b) as a small model of its own: block_count b - a, tensors renamed from
// blk.a to blk.0, arrays with one element a layer cut likewise. libllama insists on an embedding
// table and an output head in every file, so a shard that doesn't use them gets zero ones for a
// vocabulary of four. The last shard keeps the real head; its table, if the head has a matrix of
// its own, is zero in the narrowest type there is, for it's never read. Tensors are ordered so that
// those which libllama repacks stand together at the end of the file: what is mapped and kept is
// then one piece at the beginning.

#include "model/shard_plan.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "model/shard_keys.h"

namespace salvage::model {
namespace {

constexpr std::uint32_t kNoVocabularySize = 4;
constexpr std::string_view kTable = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";
constexpr std::string_view kPositions = "position_embd.weight";

// One shard in the making.
struct Cut {
  const Gguf& model;
  const ArchitectureRow& row;
  const SplitRules& rules;
  LayerRange layers;
  std::uint64_t vocabulary;
  bool first() const { return layers.begin == 0; }
  bool last() const { return layers.end == rules.layer_count; }
  bool treats(Treatment treatment) const { return (row.treatments & treatment) != 0; }
  // Whether the shard looks token ids up itself, in a table and under a vocabulary of its own.
  bool embeds() const { return first() && treats(kFirstTakesTokens); }
  std::string key(std::string_view suffix) const { return architecture_key(model, suffix); }
  std::uint64_t number(std::string_view suffix, std::uint64_t otherwise) const {
    return model.metadata().unsigned_value(key(suffix)).value_or(otherwise);
  }
};

// Arrays that have as many elements as some models have layers, without being about layers.
bool is_per_layer_key(std::string_view suffix) {
  return suffix != "rope.dimension_sections" && suffix != "classifier.output_labels" &&
         suffix != "target_layers" && !suffix.starts_with("ple.") &&
         !suffix.starts_with("adapters.");
}

bool belongs_to_no_shard(std::string_view key) {
  return key.starts_with("tokenizer.") || key.starts_with("split.") || key.starts_with("salvage.");
}

void copy_metadata(const Cut& cut, Metadata& out) {
  const std::string prefix = cut.key("");
  const std::uint64_t block_count = cut.number("block_count", 0);
  for (const auto& [key, value] : cut.model.metadata().entries()) {
    if (belongs_to_no_shard(key)) continue;
    const bool per_layer = value.is_array() && key.starts_with(prefix) &&
                           is_per_layer_key(std::string_view(key).substr(prefix.size())) &&
                           (value.count() == block_count || value.count() == cut.rules.layer_count);
    out.set(key, per_layer ? value.slice(cut.layers.begin, cut.layers.end) : value);
  }
}

void set_counts(const Cut& cut, Metadata& out) {
  out.set(cut.key("block_count"), Value::u32(cut.layers.count()));
  if (out.has(cut.key("nextn_predict_layers"))) {
    out.set(cut.key("nextn_predict_layers"), Value::u32(0));
  }
  if (out.has(cut.key("leading_dense_block_count"))) {
    const std::uint64_t dense = cut.number("leading_dense_block_count", 0);
    const std::uint64_t left = dense > cut.layers.begin ? dense - cut.layers.begin : 0;
    out.set(cut.key("leading_dense_block_count"),
            Value::u32(narrow(std::min<std::uint64_t>(left, cut.layers.count()))));
  }
  out.set("tokenizer.ggml.model", Value::string("no_vocab"));
  out.set(cut.key("vocab_size"),
          Value::u32(cut.last() || cut.embeds() ? narrow(cut.vocabulary) : kNoVocabularySize));
}

float depth_scale(std::uint32_t layer_count) {
  return 1.4F / std::sqrt(static_cast<float>(layer_count));
}

void treat_scales(const Cut& cut, Metadata& out) {
  if (cut.treats(kZeroEmbeddingScale) && !cut.first()) {
    out.set(cut.key("embedding_scale"), Value::f32(0.0F));
  }
  if (cut.treats(kWriteResidualScale) && !out.has(cut.key("residual_scale"))) {
    out.set(cut.key("residual_scale"), Value::f32(depth_scale(cut.rules.layer_count)));
  }
  if (cut.treats(kDropDeepstack) && !cut.first() && out.has(cut.key("n_deepstack_layers"))) {
    out.set(cut.key("n_deepstack_layers"), Value::u32(0));
  }
  if (cut.treats(kDropDeepstackMap)) out.erase(cut.key("deepstack_mapping"));
}

void treat_heads(const Cut& cut, Metadata& out) {
  const Value* const heads = cut.model.metadata().find(cut.key("attention.head_count"));
  if (!cut.treats(kScalarHeadCount) || heads == nullptr || !heads->is_array()) return;
  std::uint64_t most = 0;
  for (std::uint64_t i = 0; i < heads->count(); ++i) {
    most = std::max(most, heads->unsigned_at(i).value_or(0));
  }
  out.set(cut.key("attention.head_count"), Value::u32(narrow(most)));
}

// A layer range without experts would say that none of many is used, on which libllama asserts.
void treat_experts(const Cut& cut, Metadata& out) {
  const Value* const used = out.find(cut.key("expert_used_count"));
  if (used == nullptr || !used->is_array()) return;
  for (std::uint64_t i = 0; i < used->count(); ++i) {
    if (used->unsigned_at(i).value_or(0) > 0) return;
  }
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; i < cut.rules.layer_count; ++i) {
    most = std::max(most, layer_value(cut.model, "expert_used_count", i, 0));
  }
  out.set(cut.key("expert_used_count"), Value::u32(narrow(most)));
}

void treat_layer_lists(const Cut& cut, Metadata& out) {
  const auto begin = static_cast<std::ptrdiff_t>(cut.layers.begin);
  const auto end = static_cast<std::ptrdiff_t>(cut.layers.end);
  if (cut.treats(kWriteRecurrentLayers)) {
    const std::vector<bool> all = recurrent_layers(cut.model);
    out.set(cut.key("attention.recurrent_layers"),
            Value::bool_array({all.begin() + begin, all.begin() + end}));
  }
  if (cut.treats(kWriteIndexerTypes)) {
    const std::vector<bool> all = full_indexer_layers(cut.model);
    out.set(cut.key("attention.indexer.types"),
            Value::u32_array({all.begin() + begin, all.begin() + end}));
  }
  if (cut.treats(kTailSharesCache) && out.has(cut.key("attention.shared_kv_layers")) &&
      !cut.last()) {
    out.set(cut.key("attention.shared_kv_layers"), Value::u32(0));
  }
}

// Gating functions by libllama's numbers.
constexpr std::uint32_t kGateSoftmax = 1;
constexpr std::uint32_t kGateSigmoid = 2;

void treat_lite(const Cut& cut, Metadata& out) {
  if (!cut.treats(kLiteByLayerCount)) return;
  const std::uint32_t count = cut.rules.layer_count;
  if (is_lite_by_count(count, cut.vocabulary)) {
    out.set(cut.key("attention.q_lora_rank"), Value::u32(0));
  }
  if (cut.number("expert_gating_func", 0) == 0) {
    const bool sigmoid = (count == 47 || count == 48) && cut.vocabulary == 154880;
    out.set(cut.key("expert_gating_func"), Value::u32(sigmoid ? kGateSigmoid : kGateSoftmax));
  }
}

// Adds the layers' tensors; fails if a layer has none or a tensor belongs to no layer.
Result<void> add_layers(const Cut& cut, std::vector<OutputTensor>& out) {
  const std::uint64_t block_count = cut.number("block_count", 0);
  std::vector<bool> seen(cut.rules.layer_count, false);
  for (const TensorInfo& tensor : cut.model.tensors()) {
    const auto layer = layer_of_tensor(tensor.name);
    if (!layer) continue;
    if (*layer >= block_count) {
      return fail(ErrorCode::kCorrupt, fmt::format("tensor \"{}\" belongs to none of {} layers",
                                                   tensor.name, block_count));
    }
    if (*layer < cut.rules.layer_count) seen[*layer] = true;
    if (*layer < cut.layers.begin || *layer >= cut.layers.end) continue;
    const std::size_t rest = tensor.name.find('.', 4);
    out.push_back(
        copy_of(cut.model, tensor,
                fmt::format("blk.{}{}", *layer - cut.layers.begin, tensor.name.substr(rest))));
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end()) {
    return fail(ErrorCode::kCorrupt, fmt::format("layer {} has no tensors; the file is incomplete",
                                                 std::distance(seen.begin(), missing)));
  }
  return {};
}

OutputTensor zeros(std::string_view name, TensorType type, std::uint64_t width,
                   std::uint64_t height) {
  return {.name = std::string(name),
          .type = type,
          .shape = {width, height, 1, 1},
          .dimension_count = height == 1 ? 1U : 2U,
          .data = ZeroData{}};
}

// The fewest bytes that rows of this width can have; such rows are never computed with.
TensorType narrowest_type(std::uint64_t width) {
  constexpr auto kQ1 = static_cast<TensorType>(41);
  constexpr auto kQ4 = static_cast<TensorType>(2);
  if (width % 128 == 0) return kQ1;
  if (width % 32 == 0) return kQ4;
  return TensorType::kF16;
}

OutputTensor embedding_tensor(const Cut& cut, const TensorInfo& table, bool head_is_table) {
  if (cut.embeds() || (cut.last() && head_is_table)) return copy_of(cut.model, table, table.name);
  if (cut.last()) {
    return zeros(kTable, narrowest_type(table.shape[0]), table.shape[0], table.shape[1]);
  }
  return zeros(kTable, TensorType::kF32, table.shape[0], kNoVocabularySize);
}

// Of a tensor that belongs to no layer what this shard gets, if anything.
std::optional<OutputTensor> shared_tensor(const Cut& cut, const TensorInfo& tensor,
                                          bool head_is_table) {
  if (tensor.name == kTable) return embedding_tensor(cut, tensor, head_is_table);
  if (!cut.last()) {
    const std::uint64_t height = cut.embeds() ? cut.vocabulary : kNoVocabularySize;
    if (tensor.name == kHead) {
      const std::uint64_t width = tensor.shape[0];
      return zeros(kHead, cut.embeds() ? narrowest_type(width) : TensorType::kF32, width, height);
    }
    if (tensor.name == "output.bias") return zeros(tensor.name, TensorType::kF32, height, 1);
    // Factors of a quantised head, which a zero head doesn't have.
    if (tensor.name == "output.scale" || tensor.name == "output.input_scale") return std::nullopt;
  }
  if (tensor.name == kPositions && !cut.first()) {
    if (cut.treats(kDropPositionTable)) return std::nullopt;
    if (cut.treats(kZeroPositionTable)) {
      return zeros(kPositions, tensor.type, tensor.shape[0], tensor.shape[1]);
    }
  }
  return copy_of(cut.model, tensor, tensor.name);
}

Result<void> add_shared(const Cut& cut, std::vector<OutputTensor>& out) {
  const TensorInfo* const table = cut.model.find_tensor(kTable);
  if (table == nullptr) {
    return fail(ErrorCode::kCorrupt, "tensor \"token_embd.weight\" is missing");
  }
  const bool head_is_table = cut.model.find_tensor(kHead) == nullptr;
  for (const TensorInfo& tensor : cut.model.tensors()) {
    if (layer_of_tensor(tensor.name)) continue;
    if (auto shared = shared_tensor(cut, tensor, head_is_table)) out.push_back(std::move(*shared));
  }
  return {};
}

// 0: stays as it is in memory. 1: quantised, but no kernel repacks it. 2: libllama repacks it.
int memory_class(const OutputTensor& tensor) {
  if (tensor.name == kTable || tensor.dimension_count < 2) return 0;
  const std::string_view type = tensor_type_name(tensor.type);
  if (type == "f32" || type == "f16" || type == "bf16") return 0;
  for (const std::string_view repacked :
       {"q4_0", "q4_K", "q2_K", "q5_K", "q6_K", "q8_0", "iq4_nl", "mxfp4"}) {
    if (type == repacked) return 2;
  }
  return 1;
}

void add_query_patches(const Cut& cut, ShardFacts& facts) {
  const std::uint32_t special = cut.row.name == "gemma2" ? 46 : 62;
  const std::uint32_t count = cut.rules.layer_count;
  const bool differs = (count == special) != (cut.layers.count() == special);
  const std::uint64_t width = cut.number("embedding_length", 0);
  const std::uint64_t heads = layer_value(cut.model, "attention.head_count", 0, 0);
  if (!differs || heads == 0) return;
  const std::uint64_t by_heads = width / heads;
  const std::uint64_t by_key = cut.number("attention.key_length", by_heads);
  const float scale = 1.0F / std::sqrt(static_cast<float>(count == special ? by_heads : by_key));
  for (std::uint32_t i = 0; i < cut.layers.count(); ++i) {
    facts.scale_patches.push_back({fmt::format("Qcur-{}", i), true, scale});
  }
}

void add_patches(const Cut& cut, ShardFacts& facts) {
  if (cut.treats(kUnscaleInput) && !cut.first()) {
    facts.unscale_tensors = {std::string(cut.row.scaled_input)};
  }
  if (cut.treats(kScaleFirstInput) && cut.first()) {
    const auto width = static_cast<float>(cut.number("embedding_length", 0));
    facts.scale_patches.push_back({std::string(cut.row.scaled_input), false, std::sqrt(width)});
  }
  if (cut.treats(kScaleResidualPatch) && cut.layers.count() != cut.rules.layer_count) {
    const float scale = depth_scale(cut.rules.layer_count);
    for (std::uint32_t i = 0; i < cut.layers.count(); ++i) {
      facts.scale_patches.push_back({fmt::format("hidden_scaled-{}", i), false, scale});
      facts.scale_patches.push_back({fmt::format("hidden_scaled_ffn-{}", i), false, scale});
    }
  }
  if (cut.treats(kScaleQueryPatch)) add_query_patches(cut, facts);
}

ShardInput input_of(const Cut& cut) {
  if (cut.first()) return cut.treats(kFirstTakesTokens) ? ShardInput::kTokens : ShardInput::kHidden;
  return cut.treats(kReplaceInput) ? ShardInput::kReplace : ShardInput::kHidden;
}

std::uint32_t width_in(const Cut& cut, ShardInput input, std::uint32_t width) {
  if (input == ShardInput::kTokens) return 0;
  const std::uint64_t extra = cut.treats(kDropDeepstack) && cut.first()
                                  ? std::min<std::uint64_t>(cut.number("n_deepstack_layers", 0), 64)
                                  : 0;
  return narrow(width * (1 + extra));
}

ShardFacts facts_of(const Cut& cut, const std::string& digest) {
  ShardFacts facts;
  const std::uint32_t width = narrow(cut.number("embedding_length", 0));
  facts.architecture = cut.rules.architecture;
  facts.model_digest = digest;
  facts.layers = cut.layers;
  facts.layer_count = cut.rules.layer_count;
  facts.input = input_of(cut);
  if (facts.input == ShardInput::kReplace) facts.replace_tensor = cut.row.replace_tensor;
  add_patches(cut, facts);
  if (!cut.last()) {
    facts.output_tensor = cut.row.output_tensor;
    if (cut.row.output_numbered) {
      facts.output_tensor += fmt::format("-{}", cut.layers.count() - 1);
    }
    facts.row_width_out = width;
  }
  facts.row_width_in = width_in(cut, facts.input, width);
  facts.vocabulary_size = narrow(cut.vocabulary);
  return facts;
}

Cut make_cut(const Gguf& model, LayerRange layers, const SplitRules& rules) {
  return {model, *find_architecture(rules.architecture), rules, layers, vocabulary_size(model)};
}

}  // namespace

Result<FilePlan> plan_shard(const Gguf& model, LayerRange layers, const SplitRules& rules,
                            const std::string& digest) {
  if (!rules.splittable()) return fail(ErrorCode::kUnsupported, rules.refusal);
  RETURN_IF_ERROR(rules.check_stage(layers));
  const Cut cut = make_cut(model, layers, rules);
  FilePlan plan;
  copy_metadata(cut, plan.metadata);
  set_counts(cut, plan.metadata);
  treat_scales(cut, plan.metadata);
  treat_heads(cut, plan.metadata);
  treat_experts(cut, plan.metadata);
  treat_layer_lists(cut, plan.metadata);
  treat_lite(cut, plan.metadata);
  write_shard_keys(facts_of(cut, digest), plan.metadata);
  RETURN_IF_ERROR(add_shared(cut, plan.tensors));
  RETURN_IF_ERROR(add_layers(cut, plan.tensors));
  std::stable_sort(plan.tensors.begin(), plan.tensors.end(),
                   [](const OutputTensor& a, const OutputTensor& b) {
                     return memory_class(a) < memory_class(b);
                   });
  return plan;
}

ShardFacts shard_facts(const Gguf& model, LayerRange layers, const SplitRules& rules,
                       const std::string& digest) {
  return facts_of(make_cut(model, layers, rules), digest);
}

Result<FilePlan> plan_embedding_table(const Gguf& model, const std::string& digest) {
  const TensorInfo* const table = model.find_tensor(kTable);
  if (table == nullptr) {
    return fail(ErrorCode::kCorrupt, "tensor \"token_embd.weight\" is missing");
  }
  FilePlan plan;
  plan.metadata.set(
      "general.architecture",
      Value::string(model.metadata().text_value("general.architecture").value_or("")));
  plan.metadata.set(architecture_key(model, "embedding_length"),
                    Value::u32(narrow(table->shape[0])));
  plan.metadata.set(architecture_key(model, "vocab_size"), Value::u32(narrow(table->shape[1])));
  plan.metadata.set(kTableDigestKey, Value::string(digest));
  plan.tensors.push_back(copy_of(model, *table, table->name));
  return plan;
}

FilePlan plan_vocabulary(const Gguf& model) {
  FilePlan plan;
  for (const auto& [key, value] : model.metadata().entries()) {
    if (!key.starts_with("split.") && !key.starts_with("salvage.")) plan.metadata.set(key, value);
  }
  return plan;
}

}  // namespace salvage::model
