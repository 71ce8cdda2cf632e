#include "engine/llama/fingerprint.h"

#include <build-info.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <ggml-backend.h>
#include <llama.h>

#include "engine/llama/backend.h"
#include "engine/llama/cpu_backend.h"

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

// ggml's kernels call expf and its like of the machine's own C library, which has more than one of
// each: their last bits differ between its versions, and with and without fused multiply-add.
std::string mathematics() {
  const char* fused = "plain";
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
    fused = "fma";
  } else if (__builtin_cpu_supports("fma4")) {
    fused = "fma4";
  }
#endif
  return fmt::format("{} {}", gnu_get_libc_version(), fused);
}

}  // namespace

std::string kernel_fingerprint(const WeightPlacement& placement, const StageOptions& options) {
  // A failure shows as kernels "none" on the processor "none".
  static_cast<void>(start_backend());
  const std::string variant = cpu_variant().empty() ? "none" : cpu_variant();
  const char* packing = !placement.repack ? "none" : placement.plain.empty() ? "all" : "proven";
  // The compiler is ggml's own: it decides where multiply and add are fused.
  return fmt::format("llama.cpp {}; {} for {}; kernels {}; cpu {}; libm {}; repack {}; cache {}/{}",
                     llama_version(), llama_compiler(), llama_build_target(), variant,
                     cpu_features(), mathematics(), packing, cache_type_name(options.cache_type_k),
                     cache_type_name(options.cache_type_v));
}

}  // namespace salvage::engine
