#include "model/digest.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/sha256.h"

namespace salvage::model {
namespace {

constexpr std::size_t kSampleBytes = 4 << 10;

template <typename T>
void update_number(Sha256& hash, T value) {
  hash.update(std::as_bytes(std::span(&value, 1)));
}

void update_text(Sha256& hash, std::string_view text) {
  update_number(hash, std::uint64_t{text.size()});
  hash.update(text);
}

Result<void> update_samples(Sha256& hash, const Gguf& model, const TensorInfo& tensor) {
  std::array<std::byte, kSampleBytes> buffer{};
  const std::size_t count = std::min<std::uint64_t>(tensor.bytes, buffer.size());
  const auto sample = std::span(buffer).first(count);
  const std::uint64_t last = tensor.bytes - count;
  for (const std::uint64_t offset : {std::uint64_t{0}, last / 2, last}) {
    RETURN_IF_ERROR(model.read(tensor, offset, sample));
    hash.update(sample);
  }
  return {};
}

}  // namespace

Result<std::string> model_digest(const Gguf& model) {
  Sha256 hash;
  for (const auto& [key, value] : model.metadata().entries()) {
    if (key.starts_with("split.") || key.starts_with("salvage.")) continue;
    update_text(hash, key);
    update_number(hash, static_cast<std::uint32_t>(value.type()));
    update_number(hash, value.is_array() ? value.count() : UINT64_MAX);
    update_text(hash, value.payload());
  }
  std::vector<const TensorInfo*> tensors;
  for (const TensorInfo& tensor : model.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->name < b->name; });
  for (const TensorInfo* const tensor : tensors) {
    update_text(hash, tensor->name);
    update_number(hash, static_cast<std::uint32_t>(tensor->type));
    for (const std::uint64_t length : tensor->shape) update_number(hash, length);
    RETURN_IF_ERROR(update_samples(hash, model, *tensor));
  }
  return hash.hex();
}

}  // namespace salvage::model
