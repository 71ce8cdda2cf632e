#include "model/shard_keys.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "model/architecture.h"

namespace salvage::model {
namespace {

constexpr std::string_view kVersion = "salvage.shard.version";
constexpr std::string_view kDigest = "salvage.shard.model_digest";
constexpr std::string_view kInput = "salvage.shard.input";
constexpr std::string_view kReplace = "salvage.shard.replace_tensor";
constexpr std::string_view kUnscale = "salvage.shard.unscale_tensors";
constexpr std::string_view kPatchTensors = "salvage.shard.scale_patch.tensors";
constexpr std::string_view kPatchBehind = "salvage.shard.scale_patch.behind";
constexpr std::string_view kPatchScales = "salvage.shard.scale_patch.scales";
constexpr std::string_view kOutput = "salvage.shard.output_tensor";

constexpr std::size_t kTextBytesMax = 256;
constexpr std::size_t kListMax = std::size_t{4} * kLayerCountMax;
constexpr std::uint32_t kRowWidthMax = 1U << 22;  // floats; the widest known row has 32,768

constexpr std::array<std::string_view, 3> kInputNames = {"hidden", "tokens", "replace"};

struct NumberKey {
  std::string_view key;
  std::uint32_t ShardFacts::*field;
};
constexpr NumberKey kNumbers[] = {
    {"salvage.shard.layer_count", &ShardFacts::layer_count},
    {"salvage.shard.row_width_in", &ShardFacts::row_width_in},
    {"salvage.shard.row_width_out", &ShardFacts::row_width_out},
    {"salvage.shard.vocabulary_size", &ShardFacts::vocabulary_size},
};
constexpr std::string_view kLayerBegin = "salvage.shard.layer_begin";
constexpr std::string_view kLayerEnd = "salvage.shard.layer_end";

tl::unexpected<Error> bad_value(std::string_view key) {
  return fail(ErrorCode::kCorrupt, fmt::format("the shard's key {} is missing or damaged", key));
}

Result<std::uint32_t> read_number(const Metadata& metadata, std::string_view key) {
  const auto value = metadata.unsigned_value(key);
  if (!value || *value > UINT32_MAX) return bad_value(key);
  return static_cast<std::uint32_t>(*value);
}

Result<std::string> read_text(const Metadata& metadata, std::string_view key, bool required) {
  const auto value = metadata.text_value(key);
  if (!value && !required && !metadata.has(key)) return std::string();
  if (!value || value->size() > kTextBytesMax) return bad_value(key);
  return std::string(*value);
}

Result<std::vector<std::string>> read_texts(const Metadata& metadata, std::string_view key) {
  const Value* const value = metadata.find(key);
  if (value == nullptr) return std::vector<std::string>();
  if (!value->is_array() || value->type() != ValueType::kString || value->count() > kListMax) {
    return bad_value(key);
  }
  std::vector<std::string> result;
  for (const std::string_view text : value->texts()) {
    if (text.size() > kTextBytesMax) return bad_value(key);
    result.emplace_back(text);
  }
  return result;
}

Result<std::vector<ScalePatch>> read_patches(const Metadata& metadata) {
  ASSIGN_OR_RETURN(const auto tensors, read_texts(metadata, kPatchTensors));
  std::vector<ScalePatch> patches;
  if (tensors.empty()) return patches;
  const Value* const behind = metadata.find(kPatchBehind);
  const Value* const scales = metadata.find(kPatchScales);
  if (behind == nullptr || behind->count() != tensors.size()) return bad_value(kPatchBehind);
  if (scales == nullptr || scales->count() != tensors.size()) return bad_value(kPatchScales);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto is_behind = behind->unsigned_at(i);
    const auto scale = scales->real_at(i);
    if (!is_behind || !scale) return bad_value(kPatchScales);
    patches.push_back({tensors[i], *is_behind != 0, static_cast<float>(*scale)});
  }
  return patches;
}

Result<ShardInput> read_input(const Metadata& metadata) {
  ASSIGN_OR_RETURN(const std::string name, read_text(metadata, kInput, true));
  const auto found = std::find(kInputNames.begin(), kInputNames.end(), name);
  if (found == kInputNames.end()) return bad_value(kInput);
  return static_cast<ShardInput>(found - kInputNames.begin());
}

Result<void> check(const ShardFacts& facts) {
  if (facts.layers.begin >= facts.layers.end || facts.layers.end > facts.layer_count ||
      facts.layer_count > kLayerCountMax) {
    return bad_value(kLayerEnd);
  }
  if (facts.row_width_in > kRowWidthMax || facts.row_width_out > kRowWidthMax) {
    return bad_value("salvage.shard.row_width_in");
  }
  const bool wants_rows = facts.input != ShardInput::kTokens;
  if (wants_rows != (facts.row_width_in > 0)) return bad_value("salvage.shard.row_width_in");
  if (facts.last() == (facts.row_width_out > 0)) return bad_value("salvage.shard.row_width_out");
  if (facts.last() != facts.output_tensor.empty()) return bad_value(kOutput);
  const bool replaces = facts.input == ShardInput::kReplace;
  if (replaces == facts.replace_tensor.empty()) return bad_value(kReplace);
  if (facts.input == ShardInput::kTokens && !facts.first()) return bad_value(kInput);
  return {};
}

}  // namespace

void write_shard_keys(const ShardFacts& facts, Metadata& metadata) {
  metadata.set(kVersion, Value::u32(kShardVersion));
  metadata.set(kDigest, Value::string(facts.model_digest));
  metadata.set(kLayerBegin, Value::u32(facts.layers.begin));
  metadata.set(kLayerEnd, Value::u32(facts.layers.end));
  for (const NumberKey& number : kNumbers) {
    metadata.set(number.key, Value::u32(facts.*number.field));
  }
  metadata.set(kInput, Value::string(kInputNames[static_cast<std::size_t>(facts.input)]));
  if (!facts.replace_tensor.empty()) metadata.set(kReplace, Value::string(facts.replace_tensor));
  if (!facts.output_tensor.empty()) metadata.set(kOutput, Value::string(facts.output_tensor));
  if (!facts.unscale_tensors.empty()) {
    metadata.set(kUnscale, Value::string_array(facts.unscale_tensors));
  }
  if (facts.scale_patches.empty()) return;
  std::vector<std::string> tensors;
  std::vector<bool> behind;
  std::vector<float> scales;
  for (const ScalePatch& patch : facts.scale_patches) {
    tensors.push_back(patch.tensor);
    behind.push_back(patch.behind);
    scales.push_back(patch.scale);
  }
  metadata.set(kPatchTensors, Value::string_array(tensors));
  metadata.set(kPatchBehind, Value::bool_array(behind));
  metadata.set(kPatchScales, Value::f32_array(scales));
}

Result<std::optional<ShardFacts>> read_shard_keys(const Metadata& metadata) {
  if (!metadata.has(kVersion)) return std::optional<ShardFacts>();
  ASSIGN_OR_RETURN(const std::uint32_t version, read_number(metadata, kVersion));
  if (version != kShardVersion) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("this shard has format {}, this program reads {}; make the shard again",
                            version, kShardVersion));
  }
  ShardFacts facts;
  ASSIGN_OR_RETURN(facts.architecture, read_text(metadata, "general.architecture", true));
  ASSIGN_OR_RETURN(facts.model_digest, read_text(metadata, kDigest, true));
  ASSIGN_OR_RETURN(facts.layers.begin, read_number(metadata, kLayerBegin));
  ASSIGN_OR_RETURN(facts.layers.end, read_number(metadata, kLayerEnd));
  for (const NumberKey& number : kNumbers) {
    ASSIGN_OR_RETURN(facts.*number.field, read_number(metadata, number.key));
  }
  ASSIGN_OR_RETURN(facts.input, read_input(metadata));
  ASSIGN_OR_RETURN(facts.replace_tensor, read_text(metadata, kReplace, false));
  ASSIGN_OR_RETURN(facts.output_tensor, read_text(metadata, kOutput, false));
  ASSIGN_OR_RETURN(facts.unscale_tensors, read_texts(metadata, kUnscale));
  ASSIGN_OR_RETURN(facts.scale_patches, read_patches(metadata));
  RETURN_IF_ERROR(check(facts));
  return std::optional<ShardFacts>(std::move(facts));
}

}  // namespace salvage::model
