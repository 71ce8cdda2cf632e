#include "engine/llama/tiny_model.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/file.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "model/metadata.h"
#include "model/shard.h"

namespace salvage::engine {
namespace {

using model::OutputTensor;
using model::Value;

constexpr std::uint32_t kHeads = 4;
constexpr std::uint32_t kHeadsKv = 2;
constexpr std::uint32_t kFeedForward = 512;

std::filesystem::path new_folder() {
  static std::atomic<int> number = 0;
  std::random_device random;
  auto folder = std::filesystem::temp_directory_path() /
                fmt::format("salvage_tiny_{:08x}_{}", random(), ++number);
  std::filesystem::create_directories(folder);
  return folder;
}

std::string bytes_of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string packed(const std::vector<float>& values, ggml_type type, std::uint32_t row_width) {
  if (type == GGML_TYPE_F32) return bytes_of(values);
  const auto rows = static_cast<std::int64_t>(values.size() / row_width);
  std::string bytes(static_cast<std::size_t>(rows) * ggml_row_size(type, row_width), '\0');
  ggml_quantize_chunk(type, values.data(), bytes.data(), 0, rows, row_width, nullptr);
  return bytes;
}

class Weights {
 public:
  Weights(ggml_type type, std::uint64_t seed) : type_(type), random_(seed) {}

  void norm(const std::string& name) {
    std::vector<float> values(kTinyWidth);
    for (float& value : values) value = 1.0F + 0.1F * normal_(random_);
    tensors.push_back({.name = name,
                       .type = model::TensorType::kF32,
                       .shape = {kTinyWidth, 1, 1, 1},
                       .dimension_count = 1,
                       .data = model::GivenData{bytes_of(values)}});
  }
  void matrix(const std::string& name, std::uint32_t in, std::uint32_t out) {
    std::vector<float> values(std::size_t{in} * out);
    const float deviation = 1.5F / std::sqrt(static_cast<float>(in));
    for (float& value : values) value = deviation * normal_(random_);
    tensors.push_back({.name = name,
                       .type = static_cast<model::TensorType>(type_),
                       .shape = {in, out, 1, 1},
                       .dimension_count = 2,
                       .data = model::GivenData{packed(values, type_, in)}});
  }

  std::vector<OutputTensor> tensors;

 private:
  ggml_type type_;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

model::Metadata metadata() {
  model::Metadata result;
  result.set("general.architecture", Value::string("llama"));
  result.set("llama.block_count", Value::u32(kTinyLayers));
  result.set("llama.context_length", Value::u32(512));
  result.set("llama.embedding_length", Value::u32(kTinyWidth));
  result.set("llama.feed_forward_length", Value::u32(kFeedForward));
  result.set("llama.attention.head_count", Value::u32(kHeads));
  result.set("llama.attention.head_count_kv", Value::u32(kHeadsKv));
  result.set("llama.attention.layer_norm_rms_epsilon", Value::f32(1e-5F));
  result.set("llama.rope.freq_base", Value::f32(10000.0F));
  result.set("llama.vocab_size", Value::u32(kTinyVocabulary));
  result.set("tokenizer.ggml.model", Value::string("no_vocab"));
  return result;
}

std::vector<OutputTensor> random_tensors(ggml_type type, std::uint64_t seed) {
  constexpr std::uint32_t kKvWidth = kTinyWidth / kHeads * kHeadsKv;
  Weights weights(type, seed);
  weights.matrix("token_embd.weight", kTinyWidth, kTinyVocabulary);
  weights.norm("output_norm.weight");
  weights.matrix("output.weight", kTinyWidth, kTinyVocabulary);
  for (std::uint32_t layer = 0; layer < kTinyLayers; ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    weights.norm(prefix + "attn_norm.weight");
    weights.matrix(prefix + "attn_q.weight", kTinyWidth, kTinyWidth);
    weights.matrix(prefix + "attn_k.weight", kTinyWidth, kKvWidth);
    weights.matrix(prefix + "attn_v.weight", kTinyWidth, kKvWidth);
    weights.matrix(prefix + "attn_output.weight", kTinyWidth, kTinyWidth);
    weights.norm(prefix + "ffn_norm.weight");
    weights.matrix(prefix + "ffn_gate.weight", kTinyWidth, kFeedForward);
    weights.matrix(prefix + "ffn_up.weight", kTinyWidth, kFeedForward);
    weights.matrix(prefix + "ffn_down.weight", kFeedForward, kTinyWidth);
  }
  return std::move(weights.tensors);
}

model::Gguf open_or_die(const std::filesystem::path& path) {
  auto file = model::Gguf::open(path);
  CHECK(file.has_value());
  return std::move(*file);
}

}  // namespace

TinyModel::TinyModel(ggml_type type, std::uint64_t seed) : folder_(new_folder()) {
  auto file = AtomicFile::create(whole(), 0);
  CHECK(file.has_value());
  CHECK(model::write_gguf(metadata(), random_tensors(type, seed), *file, {}).has_value());
  CHECK(file->commit().has_value());
}

TinyModel::~TinyModel() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::filesystem::path TinyModel::shard(LayerRange layers) const {
  auto path = folder_ / fmt::format("shard_{}_{}.gguf", layers.begin, layers.end);
  if (!std::filesystem::exists(path)) {
    CHECK(model::write_shard(open_or_die(whole()), layers, path).has_value());
  }
  return path;
}

std::filesystem::path TinyModel::table() const {
  auto path = folder_ / "table.gguf";
  if (!std::filesystem::exists(path)) {
    CHECK(model::write_embedding_table(open_or_die(whole()), path).has_value());
  }
  return path;
}

StageOptions tiny_options(const std::filesystem::path& weights) {
  StageOptions options;
  options.weights = weights;
  options.context_per_sequence = 64;
  options.sequence_count_max = 8;
  options.rows_max = 16;
  options.logit_rows_max = 16;
  return options;
}

}  // namespace salvage::engine
