#include "engine/llama/weight_placement.h"

#include <algorithm>
#include <map>
#include <set>

#include <ggml.h>

namespace salvage::engine {
namespace {

// ggml-cpu/iqp.cpp: from 8 rows on a panel kernel takes over for these types.
constexpr std::uint32_t kPanelFreeRowsMax = 7;
// ggml-cpu flash attention: from 64 rows of one sequence on, an f16 cache gets a tiled kernel.
constexpr std::uint32_t kUntiledRowsMax = 63;

// The share of a model's matrices that may lose their repacked kernels unasked.
constexpr double kFreeShareMax = 0.2;

// Both are numbered as the file format numbers them.
ggml_type ggml_type_of(model::TensorType type) {
  return static_cast<ggml_type>(type);
}

bool has_panel_kernel(model::TensorType type) {
  switch (ggml_type_of(type)) {
    case GGML_TYPE_IQ1_S:
    case GGML_TYPE_IQ1_M:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
    case GGML_TYPE_IQ3_XXS:
    case GGML_TYPE_IQ3_S:
    case GGML_TYPE_IQ4_XS:
      return true;
    default:
      return false;
  }
}

// Types whose repacked kernels are not known to keep a row's bits.
bool repack_moves_bits(model::TensorType type) {
  switch (ggml_type_of(type)) {
    case GGML_TYPE_Q2_K:
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K:
    case GGML_TYPE_Q6_K:
    case GGML_TYPE_MXFP4:
      return true;
    default:
      return false;
  }
}

// "blk.7.ffn_down.weight" -> {"7", "ffn_down.weight"}; other tensors have no block.
struct NameParts {
  std::string block;
  std::string rest;
};
NameParts split_name(const std::string& name) {
  constexpr std::string_view kPrefix = "blk.";
  if (name.rfind(kPrefix, 0) != 0) return {{}, name};
  const std::size_t dot = name.find('.', kPrefix.size());
  if (dot == std::string::npos) return {{}, name};
  return {name.substr(kPrefix.size(), dot - kPrefix.size()), name.substr(dot + 1)};
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    if (!plain) result += '\\';
    result += c;
  }
  return result;
}

// libllama compiles every pattern anew for every tensor, so there is one for each kind of tensor
// ("^blk\.(0|3|9)\.ffn_down\.weight$") and not one for each tensor.
std::vector<std::string> patterns_for(const std::vector<std::string>& names) {
  std::map<std::string, std::set<std::string>> blocks_of;
  for (const std::string& name : names) {
    const NameParts parts = split_name(name);
    blocks_of[parts.rest].insert(parts.block);
  }
  std::vector<std::string> patterns;
  for (const auto& [rest, blocks] : blocks_of) {
    std::string alternatives;
    for (const std::string& block : blocks) {
      if (!block.empty()) alternatives += (alternatives.empty() ? "" : "|") + escaped(block);
    }
    if (blocks.count("") != 0) patterns.push_back("^" + escaped(rest) + "$");
    if (!alternatives.empty()) {
      patterns.push_back("^blk\\.(" + alternatives + ")\\." + escaped(rest) + "$");
    }
  }
  return patterns;
}

}  // namespace

WeightPlacement place_weights(std::span<const model::TensorInfo> tensors,
                              std::string_view architecture, const StageOptions& options) {
  WeightPlacement placement;
  const bool any_panel =
      std::any_of(tensors.begin(), tensors.end(),
                  [](const model::TensorInfo& tensor) { return has_panel_kernel(tensor.type); });
  const bool f16_cache =
      options.cache_type_k == CacheType::kF16 && options.cache_type_v == CacheType::kF16;
  if (f16_cache) placement.rows_exact_max = kUntiledRowsMax;
  if (any_panel) placement.rows_exact_max = kPanelFreeRowsMax;

  // MLA's batched matrices of several sequences hit an assertion in the repacked kernels.
  if (architecture.rfind("deepseek2", 0) == 0 && options.sequence_count_max > 1) {
    placement.repack = false;
    return placement;
  }
  if (!options.exact) return placement;
  std::vector<std::string> names;
  for (const model::TensorInfo& tensor : tensors) {
    if (repack_moves_bits(tensor.type)) names.push_back(tensor.name);
  }
  placement.plain = patterns_for(names);
  return placement;
}

bool exact_is_free(std::span<const model::TensorInfo> tensors) {
  const bool untied = std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.name == "output.weight";
  });
  std::uint64_t all = 0;
  std::uint64_t moving = 0;
  for (const model::TensorInfo& tensor : tensors) {
    if (has_panel_kernel(tensor.type)) return false;
    if (untied && tensor.name == "token_embd.weight") continue;  // looked up, never multiplied
    all += tensor.bytes;
    if (repack_moves_bits(tensor.type)) moving += tensor.bytes;
  }
  return static_cast<double>(moving) <= kFreeShareMax * static_cast<double>(all);
}

}  // namespace salvage::engine
