#pragma once

// ggml's CPU backend: the kernels, and the few of its functions that the engine calls itself. A
// build has it in one of two ways (cmake/llama.cmake chooses the source file):
//
//   cpu_backend_linked.cc  one set of kernels inside the program, for the CPU that compiled it;
//   cpu_backend_loaded.cc  the portable directory: a set for each generation of CPUs, as modules
//                          beside the program, of which the best that this CPU can run is loaded.
//
// Thread rule: load_cpu_backend() once, from start_backend(); the rest from any thread after that.

#include <string>

#include <ggml-cpu.h>

#include "base/result.h"

namespace salvage::engine {

// Not found: no kernels beside the program. Unsupported: none for this CPU. Corrupt: a file of them
// is damaged, so that it can't be known which would be the best.
Result<void> load_cpu_backend();

// Which kernels were chosen: "native", or a module's name such as "haswell"; empty before loading.
const std::string& cpu_variant();

struct ThreadpoolFunctions {
  decltype(&ggml_threadpool_new) create = nullptr;
  decltype(&ggml_threadpool_free) destroy = nullptr;
  decltype(&ggml_threadpool_pause) pause = nullptr;
};
// All null before load_cpu_backend() has succeeded.
const ThreadpoolFunctions& threadpool_functions();

}  // namespace salvage::engine
