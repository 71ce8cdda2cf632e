#include "engine/llama/compute_threads.h"

#include <utility>

#include <fmt/format.h>

namespace salvage::engine {

Result<ComputeThreads> ComputeThreads::create(std::uint32_t thread_count,
                                              const std::vector<std::uint32_t>& cores) {
  if (thread_count == 0 || thread_count > GGML_MAX_N_THREADS) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} compute threads; 1 to {} can be had",
                                                         thread_count, GGML_MAX_N_THREADS));
  }
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(thread_count));
  for (const std::uint32_t core : cores) {
    if (core >= GGML_MAX_N_THREADS) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("no core {} to pin threads to", core));
    }
    params.cpumask[core] = true;
  }
  params.strict_cpu = !cores.empty();
  // A paused pool pins the thread that computes, not this one that loads; see enter().
  params.paused = true;
  ThreadpoolHandle pool(threadpool_functions().create(&params));
  if (!pool) return fail(ErrorCode::kResourceExhausted, "no memory for compute threads");
  return ComputeThreads(std::move(pool), !cores.empty());
}

void ComputeThreads::attach(llama_context* context) const {
  llama_attach_threadpool(context, pool_.get(), pool_.get());
}

void ComputeThreads::enter() {
  if (!pinned_ || caller_ == std::this_thread::get_id()) return;
  // ggml pins thread 0 when a paused pool starts its next graph, and only then.
  threadpool_functions().pause(pool_.get());
  caller_ = std::this_thread::get_id();
}

}  // namespace salvage::engine
