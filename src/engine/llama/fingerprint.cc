#include "engine/llama/fingerprint.h"

#include <build-info.h>
#include <fmt/format.h>

#include <ggml-backend.h>
#include <llama.h>

namespace salvage::engine {
namespace {

// "AVX2,F16C,FMA,..." in ggml's own order: what its kernels were chosen by.
std::string cpu_features() {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return "none";
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(device);
  const auto get_features = reinterpret_cast<ggml_backend_get_features_t>(
      ggml_backend_reg_get_proc_address(registry, "ggml_backend_get_features"));
  if (get_features == nullptr) return "unknown";
  std::string names;
  for (const ggml_backend_feature* feature = get_features(registry); feature->name != nullptr;
       ++feature) {
    if (!names.empty()) names += ',';
    names += feature->name;
  }
  return names;
}

}  // namespace

std::string kernel_fingerprint(const WeightPlacement& placement, const StageOptions& options) {
  const char* packing = !placement.repack ? "none" : placement.plain.empty() ? "all" : "proven";
  // The compiler is ggml's own: it decides where multiply and add are fused.
  return fmt::format("llama.cpp {}; {} for {}; cpu {}; repack {}; cache {}/{}", llama_version(),
                     llama_compiler(), llama_build_target(), cpu_features(), packing,
                     cache_type_name(options.cache_type_k), cache_type_name(options.cache_type_v));
}

}  // namespace salvage::engine
