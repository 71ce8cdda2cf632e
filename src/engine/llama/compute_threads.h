#pragma once

// The threads that compute a stage's steps: one persistent ggml pool an engine, so that no thread
// is made per step (without OpenMP, ggml makes and joins them for every graph otherwise). Thread 0
// of the pool is whoever calls run().
//
// With cores given, every thread of the pool is pinned to one of them, the caller of run()
// included: it is pinned by its first step and stays so. Must outlive the context it is attached
// to.

#include <cstdint>
#include <thread>
#include <vector>

#include "base/result.h"
#include "engine/llama/handles.h"

namespace salvage::engine {

class ComputeThreads {
 public:
  static Result<ComputeThreads> create(std::uint32_t thread_count,
                                       const std::vector<std::uint32_t>& cores);

  void attach(llama_context* context) const;

  // Before each step, by the thread that is going to compute it.
  void enter();

 private:
  ComputeThreads(ThreadpoolHandle pool, bool pinned) : pool_(std::move(pool)), pinned_(pinned) {}
  ThreadpoolHandle pool_;
  bool pinned_;
  std::thread::id caller_;  // who is pinned as thread 0
};

}  // namespace salvage::engine
