#include "model/manifest.h"

#include <algorithm>
#include <array>
#include <map>

#include "model/validate.h"

namespace salvage::model {
namespace {

constexpr std::uint64_t kRecurrentValueBytes = 4;  // libllama keeps recurrent states in f32

std::uint64_t row_bytes(std::uint64_t values, CacheType type) {
  if (type == CacheType::kF16) return values * 2;
  constexpr std::uint64_t kBlockValues = 32;
  constexpr std::uint64_t kBlockBytes = 34;
  return (values + kBlockValues - 1) / kBlockValues * kBlockBytes;
}

// Width of one head's key or value in a layer.
std::uint64_t head_width(const Gguf& model, std::string_view suffix, bool windowed) {
  const std::uint64_t heads = std::max<std::uint64_t>(most_heads(model), 1);
  const std::uint64_t plain =
      architecture_number(model, suffix, architecture_number(model, "embedding_length", 0) / heads);
  return windowed ? architecture_number(model, std::string(suffix) + "_swa", plain) : plain;
}

// Layers that remember a window only. Unknown patterns count as remembering everything.
std::vector<bool> windowed_layers(const Gguf& model, const ArchitectureRow& row,
                                  std::uint32_t layer_count) {
  std::vector<bool> windowed(layer_count, false);
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  if (architecture_number(model, "attention.sliding_window", 0) == 0) return windowed;
  for (std::uint32_t i = 0; i < layer_count; ++i) {
    if (row.kinds == LayerKinds::kWindowArray) windowed[i] = layer_value(model, kPattern, i, 0) > 0;
    for (const CutStep& step : row.steps) {
      if (step.key != kPattern) continue;
      const std::uint64_t period = architecture_number(model, kPattern, step.otherwise);
      windowed[i] = period == 0 || i % period + 1 < period;
    }
  }
  return windowed;
}

// libllama's formulas for what a recurrent layer keeps of a sequence, in values.
std::uint64_t state_values(const Gguf& model) {
  const std::uint64_t width = architecture_number(model, "embedding_length", 0);
  const std::uint64_t conv = architecture_number(model, "ssm.conv_kernel", 0);
  if (const std::uint64_t head = architecture_number(model, "wkv.head_size", 0); head > 0) {
    return architecture_number(model, "token_shift_count", 2) * width + width * head;
  }
  if (const std::uint64_t length = architecture_number(model, "shortconv.l_cache", 0); length > 0) {
    return width * (length - 1);
  }
  if (const std::uint64_t head = architecture_number(model, "kda.head_dim", 0); head > 0) {
    const std::uint64_t heads = most_heads(model);
    return 3 * (conv > 0 ? conv - 1 : 3) * heads * head + head * head * heads;
  }
  const std::uint64_t inner = architecture_number(model, "ssm.inner_size", 0);
  const std::uint64_t state = architecture_number(model, "ssm.state_size", 0);
  const std::uint64_t groups = architecture_number(model, "ssm.group_count", 0);
  return (conv > 0 ? conv - 1 : 0) * (inner + 2 * groups * state) + state * inner;
}

bool has_attention(const ArchitectureRow& row, const Gguf& model, std::uint32_t layer,
                   bool recurrent) {
  if (row.name == "falcon-h1") return true;
  if (recurrent) return false;
  return row.kinds != LayerKinds::kNoHeadsNoFfnRecurrent ||
         layer_value(model, "feed_forward_length", layer, 0) == 0;
}

void add_cache(const Gguf& model, const ArchitectureRow& row, std::uint32_t layer,
               LayerFacts& facts) {
  if (facts.recurrent) facts.state_bytes = state_values(model) * kRecurrentValueBytes;
  if (!has_attention(row, model, layer, facts.recurrent)) return;
  const std::uint64_t heads = layer_value(model, "attention.head_count_kv", layer,
                                          layer_value(model, "attention.head_count", layer, 0));
  const bool latent = architecture_number(model, "attention.key_length_mla", 0) > 0;
  facts.key_values = narrow(heads * head_width(model, "attention.key_length", facts.windowed));
  // Latent attention (MLA) keeps one joint row; values are computed from it.
  if (!latent) {
    facts.value_values =
        narrow(heads * head_width(model, "attention.value_length", facts.windowed));
  }
  const bool sparse = row.name == "deepseek32" || row.name == "minimax-m3" ||
                      (row.name == "glm-dsa" && full_indexer_layers(model)[layer]);
  if (sparse && layer >= (row.name == "minimax-m3"
                              ? architecture_number(model, "leading_dense_block_count", 0)
                              : 0)) {
    facts.indexer_values = narrow(architecture_number(model, "attention.indexer.key_length", 0));
  }
}

void add_weights(const Gguf& model, Manifest& manifest) {
  std::map<std::uint32_t, TypeFacts> types;
  for (const TensorInfo& tensor : model.tensors()) {
    TypeFacts& type = types[static_cast<std::uint32_t>(tensor.type)];
    type.type = std::string(tensor_type_name(tensor.type));
    type.tensor_count += 1;
    type.bytes += tensor.bytes;
    manifest.parameter_count += tensor.element_count();
    const auto layer = layer_of_tensor(tensor.name);
    if (layer && *layer < manifest.layer_count) {
      manifest.layers[*layer].weight_bytes += tensor.bytes;
    } else if (tensor.name == "token_embd.weight") {
      manifest.embedding_bytes = tensor.bytes;
    } else if (tensor.name == "output.weight") {
      manifest.output_bytes = tensor.bytes;
    } else if (!layer) {
      manifest.shared_bytes += tensor.bytes;
    }
  }
  manifest.output_is_embedding = manifest.output_bytes == 0;
  if (manifest.output_is_embedding) manifest.output_bytes = manifest.embedding_bytes;
  for (auto& [number, type] : types) manifest.types.push_back(std::move(type));
  std::sort(manifest.types.begin(), manifest.types.end(),
            [](const TypeFacts& a, const TypeFacts& b) { return a.bytes > b.bytes; });
}

std::uint32_t position_planes(const Gguf& model, std::string_view architecture) {
  constexpr std::array kAlways = {"qwen2vl", "paddleocr", "qwen3vl",  "qwen3vlmoe",
                                  "qwen35",  "qwen35moe", "qwen4exp", "qwen3tts"};
  constexpr std::array kWithSections = {"glm4", "glm4moe", "hunyuan_vl"};
  constexpr std::uint32_t kPlanes = 4;
  const auto is = [&](std::string_view name) { return name == architecture; };
  if (std::any_of(kAlways.begin(), kAlways.end(), is)) return kPlanes;
  const Value* const sections =
      model.metadata().find(architecture_key(model, "rope.dimension_sections"));
  const bool used = sections != nullptr && sections->unsigned_at(0).value_or(0) > 0 &&
                    sections->unsigned_at(1).value_or(0) > 0;
  return used && std::any_of(kWithSections.begin(), kWithSections.end(), is) ? kPlanes : 1;
}

void add_text_facts(const Gguf& model, Manifest& manifest) {
  const Metadata& metadata = model.metadata();
  manifest.name = std::string(metadata.text_value("general.name").value_or(""));
  manifest.tokenizer_model = std::string(metadata.text_value("tokenizer.ggml.model").value_or(""));
  manifest.has_chat_template = metadata.text_value("tokenizer.chat_template").has_value();
  manifest.vocabulary_size = vocabulary_size(model);
  manifest.embedding_length = narrow(architecture_number(model, "embedding_length", 0));
  manifest.context_length = narrow(architecture_number(model, "context_length", 0));
  manifest.expert_count = narrow(architecture_number(model, "expert_count", 0));
  for (std::uint32_t i = 0; i < manifest.layer_count; ++i) {
    manifest.expert_used_count =
        std::max(manifest.expert_used_count, narrow(layer_value(model, "expert_used_count", i, 0)));
  }
}

}  // namespace

std::uint64_t LayerFacts::cache_bytes_per_token(CacheType keys, CacheType values) const {
  return row_bytes(key_values, keys) + row_bytes(value_values, values) +
         row_bytes(indexer_values, keys);
}

std::uint64_t Manifest::cache_bytes_per_token(CacheType keys, CacheType values) const {
  std::uint64_t bytes = 0;
  for (const LayerFacts& layer : layers) bytes += layer.cache_bytes_per_token(keys, values);
  return bytes;
}

std::uint64_t Manifest::layer_bytes(LayerRange range) const {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = range.begin; i < range.end; ++i) bytes += layers[i].weight_bytes;
  return bytes;
}

std::uint64_t Manifest::stage_bytes(LayerRange range) const {
  return layer_bytes(range) + shared_bytes + (range.end == layer_count ? output_bytes : 0);
}

Result<Manifest> read_manifest(const Gguf& model, Unproven unproven) {
  RETURN_IF_ERROR(validate_for_engine(model));
  Manifest manifest;
  ASSIGN_OR_RETURN(manifest.split, split_rules(model, unproven));
  ASSIGN_OR_RETURN(const ArchitectureRow* const row, architecture_row(model));
  manifest.architecture = manifest.split.architecture;
  manifest.layer_count = manifest.split.layer_count;
  manifest.layers.resize(manifest.layer_count);
  manifest.file_bytes = model.file_bytes();
  add_text_facts(model, manifest);
  add_weights(model, manifest);
  const std::vector<bool> recurrent = recurrent_layers(model);
  const std::vector<bool> windowed = windowed_layers(model, *row, manifest.layer_count);
  for (std::uint32_t i = 0; i < manifest.layer_count; ++i) {
    manifest.layers[i].recurrent = recurrent[i];
    manifest.layers[i].windowed = windowed[i];
    add_cache(model, *row, i, manifest.layers[i]);
    if (windowed[i])
      manifest.window = narrow(architecture_number(model, "attention.sliding_window", 0));
    manifest.recurrent = manifest.recurrent || recurrent[i];
    manifest.hybrid = manifest.hybrid || (recurrent[i] != recurrent[0]);
  }
  manifest.hybrid = manifest.hybrid || row->name == "falcon-h1";
  manifest.can_trim = !manifest.recurrent;
  manifest.position_planes = position_planes(model, row->name);
  if (row->proof == Proof::kProven) manifest.generation_problem = std::string(row->reason);
  return manifest;
}

}  // namespace salvage::model
