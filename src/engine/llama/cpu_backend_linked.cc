#include "engine/llama/cpu_backend.h"

namespace salvage::engine {

Result<void> load_cpu_backend() {
  return {};  // ggml registers what is linked in by itself.
}

const std::string& cpu_variant() {
  static const std::string variant = "native";
  return variant;
}

const ThreadpoolFunctions& threadpool_functions() {
  static constexpr ThreadpoolFunctions kFunctions{ggml_threadpool_new, ggml_threadpool_free,
                                                  ggml_threadpool_pause};
  return kFunctions;
}

}  // namespace salvage::engine
