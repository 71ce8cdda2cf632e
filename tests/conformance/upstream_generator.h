#pragma once

// Upstream's own generator of random models (tests/test-llama-archs.cpp of the pinned tree), used
// where it lies and not copied: which architectures it writes, and the metadata that it gives each.

#include <memory>
#include <string>
#include <vector>

#include "fixture_catalogue.h"
#include "gguf.h"

namespace salvage::conformance {

struct GgufDeleter {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
using GgufContext = std::unique_ptr<gguf_context, GgufDeleter>;

std::vector<UpstreamCase> upstream_cases();

// The metadata of upstream's fixture, its two (or three, or four) layers included.
GgufContext upstream_metadata(const std::string& architecture, bool experts);

}  // namespace salvage::conformance
