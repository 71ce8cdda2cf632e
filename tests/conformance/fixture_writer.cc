#include "fixture_writer.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"
#include "random_weights.h"
#include "upstream_generator.h"

namespace salvage::conformance {
namespace {

struct ContextDeleter {
  void operator()(ggml_context* context) const { ggml_free(context); }
};
struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};

// What libllama asked for while it built the model: in this order the file is written.
struct Collected {
  std::uint64_t seed = 0;
  struct Tensor {
    std::string name;
    ggml_type type = GGML_TYPE_F32;
    std::int64_t shape[GGML_MAX_DIMS] = {1, 1, 1, 1};
    std::vector<float> values;
  };
  bool keep_values = false;
  std::vector<Tensor> tensors;
};

void fill_tensor(ggml_tensor* tensor, void* userdata) {
  auto& collected = *static_cast<Collected*>(userdata);
  const WeightShape shape = sane_weights(tensor->name, tensor->ne[0], ggml_n_dims(tensor));
  const auto count = static_cast<std::size_t>(ggml_nelements(tensor));
  Collected::Tensor kept;
  kept.name = tensor->name;
  kept.values = random_values(kept.name, collected.seed, count, shape);
  ggml_backend_tensor_set(tensor, kept.values.data(), 0, ggml_nbytes(tensor));
  for (const Collected::Tensor& other : collected.tensors) {
    if (other.name == kept.name) return;  // rope_freqs.weight is made once a layer.
  }
  std::memcpy(kept.shape, tensor->ne, sizeof kept.shape);
  if (collected.keep_values) collected.tensors.push_back(std::move(kept));
}

struct SetValue {
  gguf_context* metadata;
  const char* key;
  void operator()(std::uint32_t value) const { gguf_set_val_u32(metadata, key, value); }
  void operator()(float value) const { gguf_set_val_f32(metadata, key, value); }
  void operator()(bool value) const { gguf_set_val_bool(metadata, key, value); }
  void operator()(const std::string& value) const {
    gguf_set_val_str(metadata, key, value.c_str());
  }
  void operator()(const std::vector<std::uint32_t>& values) const {
    gguf_set_arr_data(metadata, key, GGUF_TYPE_UINT32, values.data(), values.size());
  }
  void operator()(const std::vector<float>& values) const {
    gguf_set_arr_data(metadata, key, GGUF_TYPE_FLOAT32, values.data(), values.size());
  }
  void operator()(const std::vector<bool>& values) const {
    const std::vector<std::int8_t> bytes(values.begin(), values.end());
    gguf_set_arr_data(metadata, key, GGUF_TYPE_BOOL, bytes.data(), bytes.size());
  }
};

std::size_t element_bytes(gguf_type type) {
  switch (type) {
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32:
      return 4;
    case GGUF_TYPE_BOOL:
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
      return 1;
    default:
      return 0;
  }
}

// An array with one value a layer goes on with its own pattern. `deepseek4`'s first two layers are
// unlike the rest, so what goes on there is the last two.
void lengthen_array(gguf_context* metadata, const std::string& key, std::size_t layer_count) {
  const std::int64_t id = gguf_find_key(metadata, key.c_str());
  const gguf_type type = gguf_get_arr_type(metadata, id);
  const std::size_t width = element_bytes(type);
  const std::size_t old_count = gguf_get_arr_n(metadata, id);
  if (width == 0) return;
  const auto* data = static_cast<const char*>(gguf_get_arr_data(metadata, id));
  std::string bytes(data, width * old_count);
  const std::size_t period = key == "deepseek4.attention.compress_ratios" ? 2 : old_count;
  for (std::size_t i = old_count; i < layer_count; ++i) {
    bytes += bytes.substr(width * (i - period), width);
  }
  gguf_set_arr_data(metadata, key.c_str(), type, bytes.data(), layer_count);
}

void lengthen_arrays(gguf_context* metadata, std::size_t old_count, std::size_t layer_count) {
  std::vector<std::string> keys;
  for (std::int64_t id = 0; id < gguf_get_n_kv(metadata); ++id) {
    const std::string key = gguf_get_key(metadata, id);
    const bool sections = key.find("dimension_sections") != std::string::npos;
    if (gguf_get_kv_type(metadata, id) != GGUF_TYPE_ARRAY || sections) continue;
    if (gguf_get_arr_n(metadata, id) == old_count) keys.push_back(key);
  }
  for (const std::string& key : keys) lengthen_array(metadata, key, layer_count);
}

Result<GgufContext> make_metadata(const Fixture& fixture) {
  GgufContext metadata = upstream_metadata(fixture.architecture, fixture.experts);
  const std::string prefix = fixture.architecture + ".";
  const std::string count_key = prefix + "block_count";
  const std::int64_t count_id = gguf_find_key(metadata.get(), count_key.c_str());
  if (count_id < 0) return fail(ErrorCode::kInternal, "the generator wrote no " + count_key);
  lengthen_arrays(metadata.get(), gguf_get_val_u32(metadata.get(), count_id), fixture.layer_count);
  gguf_set_val_u32(metadata.get(), count_key.c_str(), fixture.layer_count);
  for (const std::string& key : fixture.removed_keys) {
    gguf_remove_key(metadata.get(), (prefix + key).c_str());
  }
  for (const MetadataEdit& edit : fixture.edits) {
    std::visit(SetValue{metadata.get(), (prefix + edit.key).c_str()}, edit.value);
  }
  return metadata;
}

bool removed(const Fixture& fixture, const std::string& name) {
  for (const std::string& other : fixture.removed_tensors) {
    if (other == name) return true;
  }
  return false;
}

// The metadata that the model was built from, and the tensors that libllama asked for.
Result<void> write_collected(const Fixture& fixture, const gguf_context* metadata,
                             const Collected& collected, const std::filesystem::path& path) {
  const GgufContext file(gguf_init_empty());
  gguf_set_kv(file.get(), metadata);
  const ggml_init_params params = {(collected.tensors.size() + 1) * ggml_tensor_overhead(), nullptr,
                                   true};
  const std::unique_ptr<ggml_context, ContextDeleter> context(ggml_init(params));
  for (const Collected::Tensor& kept : collected.tensors) {
    if (removed(fixture, kept.name)) continue;
    ggml_tensor* tensor = ggml_new_tensor(context.get(), kept.type, GGML_MAX_DIMS, kept.shape);
    ggml_set_name(tensor, kept.name.c_str());
    tensor->data = const_cast<float*>(kept.values.data());
    gguf_add_tensor(file.get(), tensor);
  }
  if (!gguf_write_to_file(file.get(), path.c_str(), false)) {
    return fail(ErrorCode::kUnavailable, "cannot write " + path.string());
  }
  return {};
}

}  // namespace

Result<void> write_fixture(const Fixture& fixture, std::uint64_t seed,
                           const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const GgufContext metadata, make_metadata(fixture));
  Collected collected;
  collected.seed = seed;
  collected.keep_values = !fixture.saved_by_upstream;
  const std::unique_ptr<llama_model, ModelDeleter> model(llama_model_init_from_user(
      metadata.get(), fill_tensor, &collected, llama_model_default_params()));
  if (!model) return fail(ErrorCode::kUnsupported, "libllama does not build " + fixture.name);
  const std::filesystem::path partial = path.string() + ".partial";
  if (fixture.saved_by_upstream) {
    llama_model_save_to_file(model.get(), partial.c_str());
  } else {
    RETURN_IF_ERROR(write_collected(fixture, metadata.get(), collected, partial));
  }
  std::error_code failure;
  std::filesystem::rename(partial, path, failure);
  if (failure) return fail(ErrorCode::kUnavailable, "cannot write " + path.string());
  return {};
}

}  // namespace salvage::conformance
