#pragma once

// Inside of the reader (gguf.h is the interface): one file's header, parsed and checked.

#include <vector>

#include "model/gguf.h"

namespace salvage::model {

struct GgufHeader {
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // `offset` counted from the file's beginning, `part` 0
  std::uint64_t alignment = kAlignmentDefault;
  std::uint64_t header_bytes = 0;  // without the padding before the data
};

// Whether the tensors' data must be in the file, as in every whole one, or may be missing.
enum class TensorData { kInFile, kElsewhere };

Result<GgufHeader> read_gguf_header(const ByteSource& file, TensorData data = TensorData::kInFile);

}  // namespace salvage::model
