#include "model_shape.h"

#include <algorithm>

#include <fmt/format.h>

namespace salvage::bench {
namespace {

constexpr std::array kArchitectures = {
    ArchitectureTraits{"llama", false, false, true},
    ArchitectureTraits{"qwen2", false, true, false},
    ArchitectureTraits{"qwen3", true, false, false},
};

constexpr std::array kTypeMixes = {
    TypeMix{"f32", LLAMA_FTYPE_ALL_F32, GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_F32},
    TypeMix{"f16", LLAMA_FTYPE_MOSTLY_F16, GGML_TYPE_F16, GGML_TYPE_F16, GGML_TYPE_F16},
    TypeMix{"bf16", LLAMA_FTYPE_MOSTLY_BF16, GGML_TYPE_BF16, GGML_TYPE_BF16, GGML_TYPE_BF16},
    TypeMix{"q8_0", LLAMA_FTYPE_MOSTLY_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0},
    TypeMix{"q6_k", LLAMA_FTYPE_MOSTLY_Q6_K, GGML_TYPE_Q6_K, GGML_TYPE_Q6_K, GGML_TYPE_Q6_K},
    TypeMix{"q5_k_m", LLAMA_FTYPE_MOSTLY_Q5_K_M, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_Q5_K},
    TypeMix{"q4_k_m", LLAMA_FTYPE_MOSTLY_Q4_K_M, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_Q4_K},
    TypeMix{"q3_k_m", LLAMA_FTYPE_MOSTLY_Q3_K_M, GGML_TYPE_Q3_K, GGML_TYPE_Q6_K, GGML_TYPE_Q4_K},
    TypeMix{"q4_0", LLAMA_FTYPE_MOSTLY_Q4_0, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K, GGML_TYPE_Q4_0},
    TypeMix{"q4_1", LLAMA_FTYPE_MOSTLY_Q4_1, GGML_TYPE_Q4_1, GGML_TYPE_Q6_K, GGML_TYPE_Q4_1},
    TypeMix{"iq4_nl", LLAMA_FTYPE_MOSTLY_IQ4_NL, GGML_TYPE_IQ4_NL, GGML_TYPE_Q6_K,
            GGML_TYPE_IQ4_NL},
    TypeMix{"iq4_xs", LLAMA_FTYPE_MOSTLY_IQ4_XS, GGML_TYPE_IQ4_XS, GGML_TYPE_Q6_K,
            GGML_TYPE_IQ4_XS},
};

// Rows are quantised in blocks of at least this many weights, whatever the type.
constexpr std::int64_t kBlockWeights = 32;
constexpr std::int64_t kWidthMax = 1 << 20;
constexpr std::int64_t kLayersMax = 1024;

template <typename Table>
std::string names_of(const Table& table) {
  std::string names;
  for (const auto& row : table) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

template <typename Table>
auto find_in(const Table& table, std::string_view what, std::string_view name)
    -> Result<typename Table::value_type> {
  const auto* found =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
  if (found == table.end()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("unknown {} '{}': choose one of {}", what, name, names_of(table)));
  }
  return *found;
}

// Upstream spends more bits on the first and last eighth of the layers and on each third between.
bool gets_more_bits(std::int64_t layer, std::int64_t layer_count) {
  const std::int64_t eighth = layer_count / 8;
  return layer < eighth || layer >= 7 * layer_count / 8 || (layer - eighth) % 3 == 2;
}

ggml_type attention_value_type(const TypeMix& mix, const ModelShape& shape, std::int64_t layer) {
  const bool grouped = shape.head_count / shape.kv_head_count >= 4;
  switch (mix.file_type) {
    case LLAMA_FTYPE_MOSTLY_Q5_K_M:
    case LLAMA_FTYPE_MOSTLY_Q4_K_M:
      return gets_more_bits(layer, shape.layer_count) ? GGML_TYPE_Q6_K : mix.base;
    case LLAMA_FTYPE_MOSTLY_Q3_K_M:
      return layer < 2 ? GGML_TYPE_Q5_K : GGML_TYPE_Q4_K;
    case LLAMA_FTYPE_MOSTLY_IQ4_NL:
    case LLAMA_FTYPE_MOSTLY_IQ4_XS:
      return grouped ? GGML_TYPE_Q5_K : mix.base;
    default:
      return mix.base;
  }
}

ggml_type feed_forward_down_type(const TypeMix& mix, std::int64_t layer, std::int64_t layer_count) {
  switch (mix.file_type) {
    case LLAMA_FTYPE_MOSTLY_Q5_K_M:
    case LLAMA_FTYPE_MOSTLY_Q4_K_M:
      return gets_more_bits(layer, layer_count) ? GGML_TYPE_Q6_K : mix.base;
    case LLAMA_FTYPE_MOSTLY_Q3_K_M:
      return layer < layer_count / 16 ? GGML_TYPE_Q5_K : GGML_TYPE_Q4_K;
    case LLAMA_FTYPE_MOSTLY_IQ4_NL:
    case LLAMA_FTYPE_MOSTLY_IQ4_XS:
      return layer < layer_count / 8 ? GGML_TYPE_Q5_K : mix.base;
    default:
      return mix.base;
  }
}

// Blocks of 256 weights do not fit rows of 576 or 896: upstream then takes these instead.
ggml_type fitting_type(ggml_type type, std::int64_t columns) {
  if (columns % ggml_blck_size(type) == 0) return type;
  switch (type) {
    case GGML_TYPE_IQ4_XS:
      return GGML_TYPE_IQ4_NL;
    case GGML_TYPE_Q3_K:
      return GGML_TYPE_Q4_0;
    case GGML_TYPE_Q4_K:
      return GGML_TYPE_Q5_0;
    case GGML_TYPE_Q5_K:
      return GGML_TYPE_Q5_1;
    default:
      return GGML_TYPE_Q8_0;
  }
}

PlannedTensor matrix(std::string name, std::int64_t columns, std::int64_t rows, ggml_type type) {
  return {std::move(name), {columns, rows}, fitting_type(type, columns), Fill::kMatrix};
}

PlannedTensor vector(std::string name, std::int64_t width, Fill fill) {
  return {std::move(name), {width, 1}, GGML_TYPE_F32, fill};
}

void plan_attention(const ModelShape& shape, const TypeMix& mix, std::int64_t layer,
                    std::vector<PlannedTensor>& tensors) {
  const auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}", layer, part); };
  const std::int64_t embedding = shape.embedding_width;
  const std::int64_t query = shape.head_count * shape.head_width;
  const std::int64_t key = shape.kv_head_count * shape.head_width;
  const auto traits = find_architecture(shape.architecture).value();

  tensors.push_back(vector(name("attn_norm.weight"), embedding, Fill::kNorm));
  tensors.push_back(matrix(name("attn_q.weight"), embedding, query, mix.base));
  tensors.push_back(matrix(name("attn_k.weight"), embedding, key, mix.base));
  tensors.push_back(
      matrix(name("attn_v.weight"), embedding, key, attention_value_type(mix, shape, layer)));
  tensors.push_back(matrix(name("attn_output.weight"), query, embedding, mix.attention_output));
  if (traits.qk_norm) {
    tensors.push_back(vector(name("attn_q_norm.weight"), shape.head_width, Fill::kNorm));
    tensors.push_back(vector(name("attn_k_norm.weight"), shape.head_width, Fill::kNorm));
  }
  if (traits.qkv_bias) {
    tensors.push_back(vector(name("attn_q.bias"), query, Fill::kBias));
    tensors.push_back(vector(name("attn_k.bias"), key, Fill::kBias));
    tensors.push_back(vector(name("attn_v.bias"), key, Fill::kBias));
  }
}

void plan_feed_forward(const ModelShape& shape, const TypeMix& mix, std::int64_t layer,
                       std::vector<PlannedTensor>& tensors) {
  const auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}", layer, part); };
  const std::int64_t embedding = shape.embedding_width;
  const std::int64_t inner = shape.feed_forward_width;
  tensors.push_back(vector(name("ffn_norm.weight"), embedding, Fill::kNorm));
  tensors.push_back(matrix(name("ffn_gate.weight"), embedding, inner, mix.base));
  tensors.push_back(matrix(name("ffn_up.weight"), embedding, inner, mix.base));
  tensors.push_back(matrix(name("ffn_down.weight"), inner, embedding,
                           feed_forward_down_type(mix, layer, shape.layer_count)));
}

Result<void> check_shape(const ModelShape& shape) {
  const auto bad = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (shape.layer_count < 1 || shape.layer_count > kLayersMax) {
    return bad(fmt::format("--layers must be 1 to {}", kLayersMax));
  }
  for (const std::int64_t width :
       {shape.embedding_width, shape.feed_forward_width, shape.head_width}) {
    if (width < kBlockWeights || width > kWidthMax || width % kBlockWeights != 0) {
      return bad(fmt::format("widths must be multiples of {} up to {}, not {}", kBlockWeights,
                             kWidthMax, width));
    }
  }
  if (shape.kv_head_count < 1 || shape.head_count < shape.kv_head_count ||
      shape.head_count > kWidthMax / shape.head_width ||
      shape.head_count % shape.kv_head_count != 0) {
    return bad("--heads must be a multiple of --kv-heads");
  }
  return {};
}

}  // namespace

Result<ArchitectureTraits> find_architecture(std::string_view name) {
  return find_in(kArchitectures, "architecture", name);
}

Result<TypeMix> find_type_mix(std::string_view name) {
  return find_in(kTypeMixes, "type", name);
}

Result<std::vector<PlannedTensor>> plan_tensors(const ModelShape& shape, const TypeMix& mix) {
  RETURN_IF_ERROR(find_architecture(shape.architecture));
  RETURN_IF_ERROR(check_shape(shape));

  std::vector<PlannedTensor> tensors;
  tensors.push_back(matrix("token_embd.weight", shape.embedding_width, shape.vocabulary_size,
                           shape.tied_embeddings ? mix.output : mix.base));
  for (std::int64_t layer = 0; layer < shape.layer_count; ++layer) {
    plan_attention(shape, mix, layer, tensors);
    plan_feed_forward(shape, mix, layer, tensors);
  }
  tensors.push_back(vector("output_norm.weight", shape.embedding_width, Fill::kNorm));
  if (!shape.tied_embeddings) {
    tensors.push_back(
        matrix("output.weight", shape.embedding_width, shape.vocabulary_size, mix.output));
  }
  return tensors;
}

}  // namespace salvage::bench
