// Cuts are judged in two steps. A single cut must fall on a multiple of every step by which the
// architecture counts its layers (libllama counts from the shard's own layer 0, so anything else
// would shift the pattern). A stage must then hold layers of each kind, because libllama makes one
// cache a kind and refuses an empty one, and must not have a layer count that libllama takes for
// another model.

#include "model/architecture.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/format.h>

namespace salvage::model {
namespace {

constexpr std::uint8_t kAttentionKind = 1;
constexpr std::uint8_t kRecurrentKind = 2;
constexpr std::uint8_t kDenseKind = 4;
constexpr std::uint8_t kSparseKind = 8;
constexpr std::uint8_t kWindowKind = 16;

// glm-dsa from version 5.2 on (told by its context length) shares choices of tokens among four
// layers when the file does not say otherwise: layers 0, 1, 2, 6, 10, ... choose.
constexpr std::uint64_t kSharedIndexerContext = 1'048'576;
constexpr std::uint32_t kSharedIndexerLayers = 102;

bool has_window(const Gguf& model) {
  return architecture_number(model, "attention.sliding_window", 0) > 0;
}

std::uint64_t step_of(const Gguf& model, const CutStep& step) {
  if (step.only_with_window && !has_window(model)) return 1;
  const std::uint64_t value =
      step.key.empty() ? step.otherwise : architecture_number(model, step.key, step.otherwise);
  return std::max<std::uint64_t>(value, 1);
}

// The smallest distance at which all of the architecture's patterns repeat, at most `limit`.
std::uint64_t cut_distance(const Gguf& model, const ArchitectureRow& row, std::uint32_t limit) {
  std::uint64_t distance = 1;
  for (const CutStep& step : row.steps) {
    const std::uint64_t next = step_of(model, step);
    if (next > limit) return limit;
    distance = std::lcm(distance, next);
    if (distance > limit) return limit;
  }
  return distance;
}

std::vector<std::uint8_t> kinds_of(const Gguf& model, const ArchitectureRow& row,
                                   std::uint32_t layer_count) {
  std::vector<std::uint8_t> kinds(layer_count, kAttentionKind);
  const std::vector<bool> recurrent = recurrent_layers(model);
  const std::uint64_t dense_count = architecture_number(model, "leading_dense_block_count", 0);
  for (std::uint32_t i = 0; i < layer_count; ++i) {
    switch (row.kinds) {
      case LayerKinds::kAlike:
        break;
      case LayerKinds::kNoHeadsRecurrent:
      case LayerKinds::kIntervalRecurrent:
        if (recurrent[i]) kinds[i] = kRecurrentKind;
        break;
      case LayerKinds::kNoHeadsNoFfnRecurrent:
        if (recurrent[i]) kinds[i] = kRecurrentKind;
        if (layer_value(model, "feed_forward_length", i, 0) > 0) kinds[i] = 0;
        break;
      case LayerKinds::kSparseNeeded:
        kinds[i] = i < dense_count ? kDenseKind : kSparseKind;
        break;
      case LayerKinds::kWindowArray:
        if (layer_value(model, "attention.sliding_window_pattern", i, 0) > 0)
          kinds[i] = kWindowKind;
        break;
    }
  }
  return kinds;
}

// All kinds that the model has; of sparse and dense attention only sparse has a cache of its own.
std::uint8_t needed_kinds(const SplitRules& rules) {
  std::uint8_t needed = 0;
  for (const std::uint8_t kind : rules.layer_kinds) needed |= kind;
  return needed & static_cast<std::uint8_t>(~kDenseKind);
}

bool is_special_count(const ArchitectureRow& row, std::uint32_t count) {
  if (row.special_counts_from > 0 && count >= row.special_counts_from) return true;
  return std::find(row.special_counts.begin(), row.special_counts.end(), count) !=
         row.special_counts.end();
}

// Properties of this one file that make an architecture with rules uncuttable.
std::string refusal_of_file(const Gguf& model, const ArchitectureRow& row,
                            std::uint32_t layer_count) {
  if (model.metadata().has("salvage.shard.version")) return "it is a shard of a model already";
  if (is_special_count(row, layer_count)) {
    return fmt::format("llama.cpp derives how a {} of {} layers computes from that number alone",
                       row.name, layer_count);
  }
  if (row.name == "llama4" && !has_window(model) &&
      model.metadata().has(architecture_key(model, "attention.sliding_window"))) {
    return "a llama4 without attention windows counts its position encoding from the last layer";
  }
  if (architecture_number(model, "num_loops", 1) > 1)
    return "its layers are run through several times";
  if ((row.treatments & kTailSharesCache) != 0 &&
      architecture_number(model, "embedding_length_per_layer_input", 0) > 0) {
    return "its layers look the tokens up again (per-layer embeddings), which is not proven yet";
  }
  return {};
}

std::string refusal_of(const Gguf& model, const ArchitectureRow& row, std::uint32_t layer_count,
                       Unproven unproven) {
  if (row.proof == Proof::kRefused) {
    return fmt::format("architecture {} cannot be cut: {}", row.name, row.reason);
  }
  if (row.proof == Proof::kCandidate && unproven == Unproven::kRefuse) {
    return fmt::format("architecture {} has not been proven exact when cut", row.name);
  }
  const std::string reason = refusal_of_file(model, row, layer_count);
  return reason.empty() ? reason : fmt::format("this {} cannot be cut: {}", row.name, reason);
}

void mark_cuts(const Gguf& model, const ArchitectureRow& row, SplitRules& rules) {
  const std::uint64_t distance = cut_distance(model, row, rules.layer_count);
  const std::vector<bool> full = (row.treatments & kWriteIndexerTypes) != 0
                                     ? full_indexer_layers(model)
                                     : std::vector<bool>(rules.layer_count, true);
  const std::uint64_t shared = (row.treatments & kTailSharesCache) != 0
                                   ? architecture_number(model, "attention.shared_kv_layers", 0)
                                   : 0;
  // The first layer of the tail may read the caches of the two layers before it.
  const std::uint64_t tail_begin =
      shared > 0 && shared < rules.layer_count ? rules.layer_count - shared - 1 : rules.layer_count;
  for (std::uint32_t i = 1; i < rules.layer_count; ++i) {
    rules.cut_legal[i] = i % distance == 0 && full[i] && i < tail_begin;
  }
}

std::vector<std::uint32_t> refused_sizes(const Gguf& model, const ArchitectureRow& row,
                                         std::uint32_t layer_count) {
  std::vector<std::uint32_t> sizes;
  const bool by_lite = (row.treatments & kLiteByLayerCount) != 0;
  const std::uint64_t vocabulary = vocabulary_size(model);
  for (std::uint32_t n = 1; n < layer_count; ++n) {
    // A "lite" file can say that it is not; the other way round there is no key for it.
    const bool turns_lite =
        by_lite && !is_lite_by_count(layer_count, vocabulary) && is_lite_by_count(n, vocabulary);
    if (turns_lite || is_special_count(row, n)) sizes.push_back(n);
  }
  return sizes;
}

}  // namespace

std::vector<std::uint32_t> SplitRules::cuts() const {
  std::vector<std::uint32_t> result;
  if (!splittable()) return result;
  for (std::uint32_t i = 1; i < layer_count; ++i) {
    if (check_stage({0, i}) && check_stage({i, layer_count})) result.push_back(i);
  }
  return result;
}

Result<void> SplitRules::check_stage(LayerRange layers) const {
  if (layers.begin >= layers.end || layers.end > layer_count) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("layers {}:{} are not a part of 0:{}",
                                                         layers.begin, layers.end, layer_count));
  }
  if (layers.count() == layer_count) return {};
  if (!splittable()) return fail(ErrorCode::kUnsupported, refusal);
  for (const std::uint32_t cut : {layers.begin, layers.end}) {
    if (!cut_legal[cut]) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("architecture {} may not be cut at layer {}", architecture, cut));
    }
  }
  std::uint8_t kinds = 0;
  for (std::uint32_t i = layers.begin; i < layers.end; ++i) kinds |= layer_kinds[i];
  if ((kinds & kinds_needed) != kinds_needed) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("layers {}:{} of {} lack one of the kinds of layers that each stage "
                            "needs",
                            layers.begin, layers.end, architecture));
  }
  if (std::find(stage_sizes_refused.begin(), stage_sizes_refused.end(), layers.count()) !=
      stage_sizes_refused.end()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a stage of {} layers would be taken for another model of {}",
                            layers.count(), architecture));
  }
  return {};
}

Result<void> SplitRules::check_split(std::span<const LayerRange> stages) const {
  std::uint32_t next = 0;
  for (const LayerRange& stage : stages) {
    if (stage.begin != next) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("layer {} is not followed by a stage", next));
    }
    RETURN_IF_ERROR(check_stage(stage));
    next = stage.end;
  }
  if (next != layer_count) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the stages end at layer {} of {}", next, layer_count));
  }
  return {};
}

Result<SplitRules> split_rules(const Gguf& model, Unproven unproven) {
  ASSIGN_OR_RETURN(const ArchitectureRow* const row, architecture_row(model));
  SplitRules rules;
  rules.architecture = std::string(row->name);
  ASSIGN_OR_RETURN(rules.layer_count, model_layer_count(model));
  rules.refusal = refusal_of(model, *row, rules.layer_count, unproven);
  rules.cut_legal.assign(rules.layer_count + 1, false);
  rules.cut_legal.front() = rules.cut_legal.back() = true;
  rules.layer_kinds = kinds_of(model, *row, rules.layer_count);
  rules.kinds_needed = needed_kinds(rules);
  if (!rules.splittable()) return rules;
  mark_cuts(model, *row, rules);
  rules.stage_sizes_refused = refused_sizes(model, *row, rules.layer_count);
  if (rules.layer_count > 1 &&
      std::count(rules.cut_legal.begin(), rules.cut_legal.end(), true) == 2) {
    rules.refusal =
        fmt::format("this {} of {} layers has no legal cut", row->name, rules.layer_count);
  }
  return rules;
}

Result<const ArchitectureRow*> architecture_row(const Gguf& model) {
  const auto name = model.metadata().text_value("general.architecture");
  if (!name) {
    return fail(ErrorCode::kInvalidArgument,
                "the file does not say its architecture (general.architecture); it is not a model");
  }
  const ArchitectureRow* const row = find_architecture(*name);
  if (row == nullptr) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("architecture \"{}\" is not known to llama.cpp v0.4.0", name->substr(0, 64)));
  }
  const auto type = model.metadata().text_value("general.type");
  if (row->proof == Proof::kNoModel || type == "mmproj" || type == "adapter") {
    const std::string_view reason =
        row->proof == Proof::kNoModel ? row->reason
        : type == "adapter" ? "it is an adapter (LoRA) for a model; name the model's own file"
                            : "it is the image or audio part (mmproj) of a model; name the "
                              "model's own file";
    return fail(ErrorCode::kUnsupported, fmt::format("not a model to talk to: {}", reason));
  }
  return row;
}

Result<std::uint32_t> model_layer_count(const Gguf& model) {
  const auto blocks = model.metadata().unsigned_value(architecture_key(model, "block_count"));
  if (!blocks) return fail(ErrorCode::kCorrupt, "the file does not say how many layers it has");
  const std::uint64_t ahead = architecture_number(model, "nextn_predict_layers", 0);
  if (*blocks == 0 || *blocks > kLayerCountMax || ahead >= *blocks) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} layers, {} of them guessing ahead: llama.cpp takes 1 to {}",
                            *blocks, ahead, kLayerCountMax));
  }
  return static_cast<std::uint32_t>(*blocks - ahead);
}

std::string architecture_key(const Gguf& model, std::string_view suffix) {
  const auto name = model.metadata().text_value("general.architecture").value_or("");
  return fmt::format("{}.{}", name, suffix);
}

std::uint64_t architecture_number(const Gguf& model, std::string_view suffix,
                                  std::uint64_t otherwise) {
  return model.metadata().unsigned_value(architecture_key(model, suffix)).value_or(otherwise);
}

std::uint64_t layer_value(const Gguf& model, std::string_view suffix, std::uint32_t layer,
                          std::uint64_t otherwise) {
  const Value* const value = model.metadata().find(architecture_key(model, suffix));
  if (value == nullptr) return otherwise;
  return value->unsigned_at(value->is_array() ? layer : 0).value_or(otherwise);
}

std::vector<bool> recurrent_layers(const Gguf& model) {
  const auto layer_count = model_layer_count(model).value_or(0);
  std::vector<bool> recurrent(layer_count, false);
  const auto row = architecture_row(model);
  if (!row) return recurrent;
  const std::string_view name = (*row)->name;
  const bool always = name == "mamba" || name == "mamba2" || name == "falcon-h1" ||
                      name.starts_with("rwkv") || name == "arwkv7";
  const bool has_array =
      model.metadata().has(architecture_key(model, "attention.recurrent_layers"));
  const std::uint64_t interval =
      std::max<std::uint64_t>(architecture_number(model, "full_attention_interval", 4), 1);
  for (std::uint32_t i = 0; i < layer_count; ++i) {
    const bool no_heads = layer_value(model, "attention.head_count_kv", i, 1) == 0;
    switch ((*row)->kinds) {
      case LayerKinds::kNoHeadsRecurrent:
        recurrent[i] = no_heads;
        break;
      case LayerKinds::kNoHeadsNoFfnRecurrent:
        recurrent[i] = no_heads && layer_value(model, "feed_forward_length", i, 0) == 0;
        break;
      case LayerKinds::kIntervalRecurrent:
        recurrent[i] = has_array ? layer_value(model, "attention.recurrent_layers", i, 0) > 0
                                 : (i + 1) % interval != 0;
        break;
      default:
        recurrent[i] = always;
    }
  }
  return recurrent;
}

std::vector<bool> full_indexer_layers(const Gguf& model) {
  const auto layer_count = model_layer_count(model).value_or(0);
  std::vector<bool> full(layer_count, true);
  const bool in_file = model.metadata().has(architecture_key(model, "attention.indexer.types"));
  const bool shared = architecture_number(model, "context_length", 0) >= kSharedIndexerContext;
  for (std::uint32_t i = 0; i < layer_count; ++i) {
    if (in_file) {
      full[i] = layer_value(model, "attention.indexer.types", i, 1) > 0;
    } else if (shared) {
      full[i] = i < 2 || (i < kSharedIndexerLayers && i % 4 == 2);
    }
  }
  return full;
}

std::optional<std::uint64_t> layer_of_tensor(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  // One spelling only, or two tensors of a file could become one in a shard.
  if (name.size() > 1 && name[0] == '0' && name[1] != '.') return std::nullopt;
  std::uint64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return layer;
}

bool is_lite_by_count(std::uint32_t layer_count, std::uint64_t vocabulary_size) {
  return layer_count == 26 || layer_count == 27 || (layer_count == 48 && vocabulary_size == 128256);
}

std::uint64_t vocabulary_size(const Gguf& model) {
  const Value* const tokens = model.metadata().find("tokenizer.ggml.tokens");
  const bool no_vocabulary = model.metadata().text_value("tokenizer.ggml.model") == "no_vocab";
  if (tokens != nullptr && tokens->is_array() && !no_vocabulary) return tokens->count();
  if (const std::uint64_t size = architecture_number(model, "vocab_size", 0); size > 0) return size;
  const TensorInfo* const table = model.find_tensor("token_embd.weight");
  return table == nullptr ? 0 : table->shape[1];
}

}  // namespace salvage::model
