#pragma once

// Writes GGUF version 3: metadata, then tensors whose data is copied from other models, given as
// bytes, or zero. Data streams through one small buffer, so memory does not grow with the model.
// Failure: whatever the source or the sink says; `cancelled` when the progress callback returns
// false. What was written until then is the caller's to throw away (base/file.h AtomicFile does).

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/gguf.h"

namespace salvage::model {

// Called with 0..1 from the working thread, at least once a few megabytes; false = stop.
using Progress = std::function<bool(double)>;

// Where a written tensor's data comes from.
struct ZeroData {};
struct GivenData {
  std::string bytes;  // exactly as many as type and shape say
};
// A whole tensor of another model.
struct CopiedData {
  const Gguf* model = nullptr;
  const TensorInfo* tensor = nullptr;
};
// Of each row of another model's tensor the bytes [row_begin, row_begin + row_count).
struct CopiedColumns {
  const Gguf* model = nullptr;
  const TensorInfo* tensor = nullptr;
  std::uint64_t row_begin = 0;
  std::uint64_t row_count = 0;
};

struct OutputTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::array<std::uint64_t, 4> shape = {1, 1, 1, 1};
  std::uint32_t dimension_count = 1;
  std::variant<ZeroData, GivenData, CopiedData, CopiedColumns> data;
};

// An unchanged tensor under a name.
OutputTensor copy_of(const Gguf& model, const TensorInfo& tensor, std::string name);

// Size of the file that write_gguf() makes of the same arguments; fails where that would.
Result<std::uint64_t> gguf_bytes(const Metadata& metadata, std::span<const OutputTensor> tensors);

// What write_gguf() puts before the tensors' data, without the padding.
Result<void> write_gguf_header(const Metadata& metadata, std::span<const OutputTensor> tensors,
                               ByteSink& sink);

Result<void> write_gguf(const Metadata& metadata, std::span<const OutputTensor> tensors,
                        ByteSink& sink, const Progress& progress);

}  // namespace salvage::model
