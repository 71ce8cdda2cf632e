#pragma once

// Owners of libllama's and ggml's C objects. A context must go before the model and the thread pool
// that it uses: declare it after them.

#include <memory>

#include <llama.h>

#include "engine/llama/cpu_backend.h"

namespace salvage::engine {

struct FreeModel {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct FreeContext {
  void operator()(llama_context* context) const { llama_free(context); }
};
struct FreeThreadpool {
  void operator()(ggml_threadpool* pool) const { threadpool_functions().destroy(pool); }
};
struct FreeSampler {
  void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
};

using ModelHandle = std::unique_ptr<llama_model, FreeModel>;
using ContextHandle = std::unique_ptr<llama_context, FreeContext>;
using ThreadpoolHandle = std::unique_ptr<ggml_threadpool, FreeThreadpool>;
using SamplerHandle = std::unique_ptr<llama_sampler, FreeSampler>;

}  // namespace salvage::engine
