// Writes a model with random weights and a real tokenizer, for benchmarks: it computes and weighs
// what a real model of that shape does, and nothing has to be downloaded.
//
//   random_model --vocab-from llama.cpp/models/ggml-vocab-qwen2.gguf -o random.gguf
//
// The default shape is Qwen3 1.7B in Q4_K_M. Weights are N(0, 1.5/sqrt(fan-in)) and norms near 1,
// so that hidden states keep their size over any number of layers and logits stay finite. Tensors
// are made and written a few rows at a time; the file appears under its name only when it is whole.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <ggml.h>
#include <gguf.h>

#include "base/file.h"
#include "base/result.h"
#include "model_shape.h"
#include "random_weights.h"

namespace salvage::bench {
namespace {

constexpr float kMatrixGain = 1.5F;  // Upstream's 0.01 drowns every error; 1 lets signals fade.
constexpr float kNormSd = 0.1F;
constexpr float kBiasSd = 0.1F;
constexpr std::size_t kWriteBytes = 4U << 20U;
constexpr float kRopeBase = 1e6F;
constexpr float kNormEpsilon = 1e-6F;
// From ggml's quantisation format: upstream's loader compares it with its own.
constexpr std::uint32_t kQuantizationVersion = GGML_QNT_VERSION;

struct Options {
  ModelShape shape;
  std::string type = "q4_k_m";
  std::string vocabulary_path;
  std::string output_path;
  std::uint64_t seed = 1;
  bool untied = false;
};

using GgufPointer = std::unique_ptr<gguf_context, decltype(&gguf_free)>;
using GgmlPointer = std::unique_ptr<ggml_context, decltype(&ggml_free)>;

Result<GgufPointer> read_vocabulary(const std::string& path) {
  GgufPointer file(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}),
                   gguf_free);
  if (!file) return fail(ErrorCode::kNotFound, path + " is not a GGUF file that can be read");
  const std::int64_t tokens = gguf_find_key(file.get(), "tokenizer.ggml.tokens");
  if (tokens < 0) return fail(ErrorCode::kInvalidArgument, path + " has no tokenizer.ggml.tokens");
  return file;
}

std::int64_t token_count(const gguf_context* vocabulary) {
  const std::int64_t tokens = gguf_find_key(vocabulary, "tokenizer.ggml.tokens");
  return static_cast<std::int64_t>(gguf_get_arr_n(vocabulary, tokens));
}

// Everything of the vocabulary file but its `tokenizer.` keys belongs to another model.
void remove_foreign_keys(gguf_context* metadata) {
  std::vector<std::string> foreign;
  for (std::int64_t index = 0; index < gguf_get_n_kv(metadata); ++index) {
    const std::string key = gguf_get_key(metadata, index);
    if (!key.starts_with("tokenizer.")) foreign.push_back(key);
  }
  for (const std::string& key : foreign) gguf_remove_key(metadata, key.c_str());
}

void set_metadata(gguf_context* metadata, const ModelShape& shape, const TypeMix& mix) {
  const auto set = [&](std::string_view key, std::int64_t value) {
    const std::string name = fmt::format("{}.{}", shape.architecture, key);
    gguf_set_val_u32(metadata, name.c_str(), static_cast<std::uint32_t>(value));
  };
  const auto set_float = [&](std::string_view key, float value) {
    gguf_set_val_f32(metadata, fmt::format("{}.{}", shape.architecture, key).c_str(), value);
  };
  gguf_set_val_str(metadata, "general.architecture", shape.architecture.c_str());
  gguf_set_val_str(metadata, "general.name", "random weights");
  gguf_set_val_u32(metadata, "general.file_type", mix.file_type);
  gguf_set_val_u32(metadata, "general.quantization_version", kQuantizationVersion);
  set("block_count", shape.layer_count);
  set("context_length", shape.context_length);
  set("embedding_length", shape.embedding_width);
  set("feed_forward_length", shape.feed_forward_width);
  set("vocab_size", shape.vocabulary_size);
  set("attention.head_count", shape.head_count);
  set("attention.head_count_kv", shape.kv_head_count);
  set("attention.key_length", shape.head_width);
  set("attention.value_length", shape.head_width);
  set_float("attention.layer_norm_rms_epsilon", kNormEpsilon);
  set_float("rope.freq_base", kRopeBase);
  if (find_architecture(shape.architecture).value().rope_dimension) {
    set("rope.dimension_count", shape.head_width);
  }
}

void add_tensors(gguf_context* metadata, const std::vector<PlannedTensor>& tensors) {
  const ggml_init_params params = {.mem_size = ggml_tensor_overhead() * (tensors.size() + 1),
                                   .mem_buffer = nullptr,
                                   .no_alloc = true};
  const GgmlPointer context(ggml_init(params), ggml_free);
  for (const PlannedTensor& planned : tensors) {
    ggml_tensor* tensor =
        planned.fill == Fill::kMatrix
            ? ggml_new_tensor_2d(context.get(), planned.type, planned.size[0], planned.size[1])
            : ggml_new_tensor_1d(context.get(), planned.type, planned.size[0]);
    ggml_set_name(tensor, planned.name.c_str());
    gguf_add_tensor(metadata, tensor);
  }
}

Result<void> write_matrix(const PlannedTensor& tensor, RandomWeights& weights, ByteSink& out) {
  const std::size_t row_bytes = ggml_row_size(tensor.type, tensor.size[0]);
  const std::size_t rows_at_once = std::max<std::size_t>(1, kWriteBytes / row_bytes);
  const float sd = kMatrixGain / std::sqrt(static_cast<float>(tensor.size[0]));
  std::vector<std::byte> rows(rows_at_once * row_bytes);
  for (auto left = static_cast<std::size_t>(tensor.size[1]); left > 0;) {
    const std::size_t count = std::min(left, rows_at_once);
    const auto part = std::span(rows).first(count * row_bytes);
    weights.fill_matrix(tensor.type, sd, part);
    RETURN_IF_ERROR(out.write(part));
    left -= count;
  }
  return {};
}

Result<void> write_vector(const PlannedTensor& tensor, RandomWeights& weights, ByteSink& out) {
  std::vector<float> values(static_cast<std::size_t>(tensor.size[0]));
  if (tensor.fill == Fill::kNorm) {
    weights.fill_vector(1.0F, kNormSd, values);
  } else {
    weights.fill_vector(0.0F, kBiasSd, values);
  }
  return out.write(std::as_bytes(std::span(values)));
}

// Tensors follow each other in the file in the order of the list, each padded to the alignment.
Result<void> write_tensors(const gguf_context* metadata, const std::vector<PlannedTensor>& tensors,
                           std::uint64_t seed, ByteSink& out) {
  RandomWeights weights(seed);
  const std::size_t alignment = gguf_get_alignment(metadata);
  const std::vector<std::byte> zeros(alignment);
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    if (tensors[index].fill == Fill::kMatrix) {
      RETURN_IF_ERROR(write_matrix(tensors[index], weights, out));
    } else {
      RETURN_IF_ERROR(write_vector(tensors[index], weights, out));
    }
    const std::size_t size = gguf_get_tensor_size(metadata, static_cast<std::int64_t>(index));
    RETURN_IF_ERROR(out.write(std::span(zeros).first((alignment - size % alignment) % alignment)));
  }
  return {};
}

std::uint64_t file_bytes(const gguf_context* metadata) {
  const std::int64_t last = gguf_get_n_tensors(metadata) - 1;
  return gguf_get_meta_size(metadata) + gguf_get_tensor_offset(metadata, last) +
         gguf_get_tensor_size(metadata, last) + gguf_get_alignment(metadata);
}

Result<void> make_model(const Options& options) {
  ASSIGN_OR_RETURN(const TypeMix mix, find_type_mix(options.type));
  ASSIGN_OR_RETURN(const GgufPointer vocabulary, read_vocabulary(options.vocabulary_path));
  ModelShape shape = options.shape;
  shape.vocabulary_size = token_count(vocabulary.get());
  shape.tied_embeddings = !options.untied;
  ASSIGN_OR_RETURN(const auto tensors, plan_tensors(shape, mix));

  const GgufPointer metadata(gguf_init_empty(), gguf_free);
  gguf_set_kv(metadata.get(), vocabulary.get());
  remove_foreign_keys(metadata.get());
  set_metadata(metadata.get(), shape, mix);
  add_tensors(metadata.get(), tensors);
  std::vector<std::byte> header(gguf_get_meta_size(metadata.get()));
  gguf_get_meta_data(metadata.get(), header.data());

  ASSIGN_OR_RETURN(auto file, AtomicFile::create(options.output_path, file_bytes(metadata.get())));
  RETURN_IF_ERROR(file.write(header));
  RETURN_IF_ERROR(write_tensors(metadata.get(), tensors, options.seed, file));
  return file.commit();
}

void add_options(CLI::App& app, Options& options) {
  ModelShape& shape = options.shape;
  app.add_option("--arch", shape.architecture, "llama, qwen2 or qwen3")->capture_default_str();
  app.add_option("--layers", shape.layer_count, "layers")->capture_default_str();
  app.add_option("--embd", shape.embedding_width, "embedding width")->capture_default_str();
  app.add_option("--heads", shape.head_count, "query heads")->capture_default_str();
  app.add_option("--kv-heads", shape.kv_head_count, "key/value heads")->capture_default_str();
  app.add_option("--head-dim", shape.head_width, "width of one head")->capture_default_str();
  app.add_option("--ff", shape.feed_forward_width, "feed-forward width")->capture_default_str();
  app.add_option("--ctx", shape.context_length, "trained context length")->capture_default_str();
  app.add_flag("--untied", options.untied, "an output matrix of its own");
  app.add_option("--type", options.type, "f16, q8_0, q4_k_m, ...")->capture_default_str();
  app.add_option("--seed", options.seed, "equal seeds give equal files")->capture_default_str();
  app.add_option("--vocab-from", options.vocabulary_path, "GGUF whose tokenizer to copy")
      ->required();
  app.add_option("-o,--output", options.output_path, "file to write")->required();
}

int run(int argc, char** argv) {
  CLI::App app("Writes a GGUF model with random weights and a real tokenizer.");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  if (const auto made = make_model(options); !made) {
    fmt::print(stderr, "random_model: {}\n", made.error().message());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace salvage::bench

int main(int argc, char** argv) {
  try {
    return salvage::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "random_model: %s\n", error.what());
    return 1;
  }
}
