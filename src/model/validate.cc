#include "model/validate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>

#include "model/architecture.h"

namespace salvage::model {
namespace {

constexpr std::uint64_t kGatingFunctionMax = 4;  // the highest that libllama has a graph for
constexpr std::uint64_t kExpertCountMax = 1024;  // libllama's own limit
constexpr std::uint64_t kWidthMax = 1U << 20;    // values of one row; the widest known has 32,768

// Architectures whose graphs assert that a head is rotated as a whole.
constexpr std::array<std::string_view, 50> kWholeHeadRotated = {
    "apertus",   "arcee",      "arctic",   "baichuan",    "codeshell",     "dbrx",
    "deci",      "deepseek",   "dots1",    "dream",       "ernie4_5",      "ernie4_5-moe",
    "exaone",    "exaone-moe", "exaone4",  "falcon",      "granite",       "granitemoe",
    "grok",      "grovemoe",   "hy_v3",    "hunyuan-moe", "hunyuan-dense", "hunyuan_vl",
    "internlm2", "jais2",      "llada",    "llada-moe",   "llama",         "llama4",
    "maincoder", "mistral3",   "nemotron", "olmo",        "olmo2",         "olmoe",
    "orion",     "paddleocr",  "plamo",    "qwen2",       "qwen2moe",      "qwen2vl",
    "qwen3",     "qwen3moe",   "qwen3vl",  "qwen3vlmoe",  "rnd1",          "seed_oss",
    "smollm3",   "starcoder2"};

struct Divisor {
  std::string_view architecture;
  std::string_view suffix;
  std::uint64_t at_least = 1;
};

constexpr std::array<Divisor, 21> kDivisors = {{
    {"ernie4_5-moe", "interleave_moe_layer_step"},
    {"falcon-h1", "ssm.time_step_rank"},
    {"granitehybrid", "ssm.time_step_rank"},
    {"grovemoe", "experts_per_group"},
    {"lfm2", "shortconv.l_cache", 2},
    {"lfm2moe", "shortconv.l_cache", 2},
    {"mamba2", "ssm.time_step_rank"},
    {"minimax-01", "full_attention_interval"},
    {"minimax-m3", "attention.indexer.block_size"},
    {"nanbeige", "num_loops"},
    {"nemotron_h", "ssm.time_step_rank"},
    {"nemotron_h_moe", "ssm.time_step_rank"},
    {"plamo2", "ssm.time_step_rank"},
    {"qwen35", "full_attention_interval"},
    {"qwen35", "ssm.time_step_rank"},
    {"qwen35moe", "full_attention_interval"},
    {"qwen35moe", "ssm.time_step_rank"},
    {"qwen3next", "full_attention_interval"},
    {"qwen3next", "ssm.time_step_rank"},
    {"qwen4exp", "full_attention_interval"},
    {"qwen4exp", "ssm.time_step_rank"},
}};

std::uint64_t number(const Gguf& model, std::string_view suffix, std::uint64_t otherwise) {
  return model.metadata().unsigned_value(architecture_key(model, suffix)).value_or(otherwise);
}

tl::unexpected<Error> bad(const std::string& message) {
  return fail(ErrorCode::kCorrupt, message + "; llama.cpp would refuse or crash on this file");
}

Result<void> check_widths(const Gguf& model) {
  for (const std::string_view key : {"embedding_length", "context_length"}) {
    const auto value = model.metadata().unsigned_value(architecture_key(model, key));
    if (!value || *value == 0 || *value > INT32_MAX) {
      return bad(fmt::format("{} is missing, zero or absurd", architecture_key(model, key)));
    }
  }
  if (number(model, "embedding_length", 0) > kWidthMax) {
    return bad(fmt::format("embedding_length is {}", number(model, "embedding_length", 0)));
  }
  const TensorInfo* const table = model.find_tensor("token_embd.weight");
  if (table != nullptr && table->shape[0] != number(model, "embedding_length", 0)) {
    return bad(fmt::format("token_embd.weight is {} wide, embedding_length is {}", table->shape[0],
                           number(model, "embedding_length", 0)));
  }
  return {};
}

// Arrays that libllama copies one element a layer.
Result<void> check_array_lengths(const Gguf& model, std::uint32_t layer_count) {
  const std::uint64_t block_count = number(model, "block_count", 0);
  for (const std::string_view suffix : {"attention.head_count", "attention.head_count_kv",
                                        "feed_forward_length", "expert_used_count"}) {
    const Value* const value = model.metadata().find(architecture_key(model, suffix));
    if (value == nullptr || !value->is_array()) continue;
    if (value->count() != block_count && value->count() != layer_count) {
      return bad(fmt::format("{} has {} elements for {} layers", architecture_key(model, suffix),
                             value->count(), block_count));
    }
  }
  return {};
}

Result<void> check_heads(const Gguf& model, std::uint32_t layer_count) {
  for (std::uint32_t i = 0; i < layer_count; ++i) {
    const std::uint64_t heads = layer_value(model, "attention.head_count", i, 0);
    const std::uint64_t kv_heads = layer_value(model, "attention.head_count_kv", i, heads);
    if (heads > kWidthMax || kv_heads > kWidthMax) {
      return bad(fmt::format("layer {} has {} heads", i, heads));
    }
    if (heads > 0 && kv_heads > 0 && heads % kv_heads != 0) {
      return bad(fmt::format("layer {} has {} heads for {} KV heads, which doesn't divide", i,
                             heads, kv_heads));
    }
  }
  return {};
}

Result<void> check_rotation(const Gguf& model, std::string_view architecture) {
  const std::uint64_t heads = most_heads(model);
  if (heads == 0) return {};
  const std::uint64_t width = number(model, "embedding_length", 0) / heads;
  const std::uint64_t keys = number(model, "attention.key_length", width);
  const std::uint64_t values = number(model, "attention.value_length", width);
  const std::uint64_t turned = number(model, "rope.dimension_count", keys);
  if (keys == 0 || values == 0 || keys > kWidthMax || values > kWidthMax) {
    return bad(fmt::format("{} heads with keys of {} and values of {}", heads, keys, values));
  }
  if (turned % 2 != 0 || turned > keys) {
    return bad(fmt::format("rope.dimension_count is {} for keys of {}", turned, keys));
  }
  const std::uint64_t latent_keys = number(model, "attention.key_length_mla", 0);
  if (latent_keys > 0 && latent_keys <= number(model, "rope.dimension_count", 0)) {
    return bad(fmt::format("attention.key_length_mla is {}, of which {} are rotated", latent_keys,
                           turned));
  }
  const bool whole = std::find(kWholeHeadRotated.begin(), kWholeHeadRotated.end(), architecture) !=
                     kWholeHeadRotated.end();
  if (whole && (turned != keys || keys != values)) {
    return bad(fmt::format("{} needs keys, values and rotation of one width, not {}, {} and {}",
                           architecture, keys, values, turned));
  }
  const auto scaling = model.metadata().text_value(architecture_key(model, "rope.scaling.type"));
  constexpr std::array<std::string_view, 4> kScalings = {"none", "linear", "yarn", "longrope"};
  if (scaling && std::find(kScalings.begin(), kScalings.end(), *scaling) == kScalings.end()) {
    return bad(fmt::format("rope.scaling.type \"{}\" is unknown", scaling->substr(0, 32)));
  }
  return {};
}

Result<void> check_experts(const Gguf& model, std::uint32_t layer_count,
                           std::string_view architecture) {
  const std::uint64_t experts = number(model, "expert_count", 0);
  if (architecture.starts_with("hunyuan") && architecture != "hunyuan-moe" && experts <= 1) {
    return {};  // libllama takes one expert for none there
  }
  const std::uint64_t gating = number(model, "expert_gating_func", 0);
  if (gating > kGatingFunctionMax) return bad(fmt::format("expert_gating_func is {}", gating));
  const std::uint64_t groups = number(model, "expert_group_count", 0);
  const std::uint64_t used_groups = number(model, "expert_group_used_count", 0);
  std::uint64_t used = 0;
  for (std::uint32_t i = 0; i < layer_count; ++i) {
    used = std::max(used, layer_value(model, "expert_used_count", i, 0));
  }
  if (experts > kExpertCountMax || used > experts || (experts > 0 && used == 0)) {
    return bad(fmt::format("{} of {} experts are used", used, experts));
  }
  const bool groups_wrong =
      experts == 0 ? groups > 0
                   : groups >= experts ||
                         (groups > 1 &&
                          (experts % groups != 0 || used_groups == 0 || used_groups >= groups));
  if (groups_wrong) {
    return bad(fmt::format("{} of {} groups of {} experts are used", used_groups, groups, experts));
  }
  return {};
}

// Numbers by which libllama divides, or which it asserts to be above zero. Only where it reads
// them: its own writer puts every key into every file, zero where it means nothing.
Result<void> check_divisors(const Gguf& model, std::string_view architecture) {
  for (const Divisor& divisor : kDivisors) {
    if (divisor.architecture != architecture) continue;
    const auto value = model.metadata().unsigned_value(architecture_key(model, divisor.suffix));
    if (value && *value < divisor.at_least) {
      return bad(fmt::format("{} is {}, which must be {} or more",
                             architecture_key(model, divisor.suffix), *value, divisor.at_least));
    }
  }
  if (architecture != "nanbeige") return {};
  const std::uint64_t loops = number(model, "num_loops", 1);
  if (loops > kLayerCountMax / number(model, "block_count", 1)) {
    return bad(fmt::format("{} loops over its layers", loops));
  }
  return {};
}

// A query scale that grows every so many tokens.
Result<void> check_temperature(const Gguf& model, std::string_view architecture) {
  if (architecture != "deepseek2" && architecture != "mistral4") return {};
  const auto scale =
      model.metadata().real_value(architecture_key(model, "attention.temperature_scale"));
  if (scale.value_or(0) != 0 && number(model, "attention.temperature_length", 0) == 0) {
    return bad(fmt::format("attention.temperature_scale is {}, attention.temperature_length zero",
                           *scale));
  }
  return {};
}

// ggml asserts that what it adds under a root is not negative; no other number may be NaN either.
Result<void> check_reals(const Gguf& model, std::string_view architecture) {
  for (const auto& [key, value] : model.metadata().entries()) {
    const bool real = value.type() == ValueType::kF32 || value.type() == ValueType::kF64;
    if (!real || !key.starts_with(architecture)) continue;
    for (std::uint64_t i = 0; i < value.count(); ++i) {
      const double number = value.real_at(i).value_or(0);
      if (std::isnan(number) || (key.ends_with("_epsilon") && number < 0)) {
        return bad(fmt::format("{} is {}", key, number));
      }
    }
  }
  return {};
}

Result<void> check_vocabulary(const Gguf& model) {
  const Value* const tokens = model.metadata().find("tokenizer.ggml.tokens");
  if (tokens == nullptr) return {};
  if (!tokens->is_array() || tokens->type() != ValueType::kString || tokens->count() == 0) {
    return bad("tokenizer.ggml.tokens is not a list of strings");
  }
  std::unordered_set<std::string_view> seen;
  for (const std::string_view text : tokens->texts()) {
    if (!text.empty() && !seen.insert(text).second) {
      return bad(fmt::format("the vocabulary has one token twice, of {} bytes", text.size()));
    }
  }
  return {};
}

}  // namespace

std::uint64_t most_heads(const Gguf& model) {
  const Value* const heads = model.metadata().find(architecture_key(model, "attention.head_count"));
  std::uint64_t most = 0;
  for (std::uint64_t i = 0; heads != nullptr && i < heads->count() && i <= kLayerCountMax; ++i) {
    most = std::max(most, heads->unsigned_at(i).value_or(0));
  }
  return most;
}

Result<void> validate_for_engine(const Gguf& model) {
  ASSIGN_OR_RETURN(const ArchitectureRow* const row, architecture_row(model));
  ASSIGN_OR_RETURN(const std::uint32_t layer_count, model_layer_count(model));
  RETURN_IF_ERROR(check_widths(model));
  RETURN_IF_ERROR(check_array_lengths(model, layer_count));
  RETURN_IF_ERROR(check_heads(model, layer_count));
  RETURN_IF_ERROR(check_rotation(model, row->name));
  RETURN_IF_ERROR(check_experts(model, layer_count, row->name));
  RETURN_IF_ERROR(check_divisors(model, row->name));
  RETURN_IF_ERROR(check_temperature(model, row->name));
  RETURN_IF_ERROR(check_reals(model, row->name));
  return check_vocabulary(model);
}

}  // namespace salvage::model
