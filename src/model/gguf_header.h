#pragma once

// Inside of the reader (gguf.h is the interface): one file's header, parsed and checked.

#include <vector>

#include "model/gguf.h"

namespace salvage::model {

struct GgufHeader {
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // `offset` counted from the file's beginning, `part` 0
  std::uint64_t alignment = kAlignmentDefault;
};

Result<GgufHeader> read_gguf_header(const ByteSource& file);

}  // namespace salvage::model
