#include "upstream_generator.h"

// The test is a program of static functions; included with its main() renamed they are ours to
// call. Warnings in it are upstream's business: its folder is a system include.
#define main upstream_main
#include <tests/test-llama-archs.cpp>
#undef main

namespace salvage::conformance {

std::vector<UpstreamCase> upstream_cases() {
  std::vector<UpstreamCase> cases;
  for (const llm_arch arch : llm_arch_all()) {
    const bool drafts = arch == LLM_ARCH_EAGLE3 || arch == LLM_ARCH_DFLASH;
    if (arch == LLM_ARCH_UNKNOWN || drafts || !arch_supported(arch)) continue;
    for (const bool experts : {false, true}) {
      if (experts ? !moe_implemented(arch) : moe_mandatory(arch)) continue;
      cases.push_back({llm_arch_name(arch), experts, llama_model_saver_supports_arch(arch)});
    }
  }
  return cases;
}

GgufContext upstream_metadata(const std::string& architecture, bool experts) {
  return GgufContext(get_gguf_ctx(llm_arch_from_string(architecture), experts).release());
}

}  // namespace salvage::conformance
