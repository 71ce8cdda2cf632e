#include "engine/llama/hidden_tap.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <ggml-backend.h>

namespace salvage::engine {
namespace {

std::size_t element_count(const ggml_tensor* tensor) {
  return static_cast<std::size_t>(ggml_nelements(tensor));
}

// Rows of `width` floats, one behind the other: what can be copied as it lies.
bool is_rows_of(const ggml_tensor* tensor, std::size_t width) {
  return tensor->type == GGML_TYPE_F32 && ggml_is_contiguous(tensor) &&
         static_cast<std::size_t>(tensor->ne[0]) == width;
}

}  // namespace

HiddenTap::HiddenTap(HiddenTapNames names) : names_(std::move(names)) {}

void HiddenTap::begin(std::span<float> output, std::size_t output_width,
                      std::span<const float> input, std::size_t input_width) {
  output_ = output;
  output_width_ = output_width;
  output_done_ = 0;
  input_ = input;
  input_width_ = input_width;
  input_done_ = 0;
  shape_fits_ = true;
}

Result<void> HiddenTap::check() const {
  if (!shape_fits_) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' or '{}' has another shape than this shard's metadata says",
                            names_.output_tensor, names_.replace_tensor));
  }
  if (output_done_ != output_.size()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} of {} floats left by tensor '{}'; the shard names the wrong tensor",
                            output_done_, output_.size(), names_.output_tensor));
  }
  if (input_done_ != input_.size()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} of {} floats entered at tensor '{}'; the shard names the wrong one",
                            input_done_, input_.size(), names_.replace_tensor));
  }
  return {};
}

bool HiddenTap::on_tensor(ggml_tensor* tensor, bool ask, void* tap) {
  auto& self = *static_cast<HiddenTap*>(tap);
  return ask ? self.wants(tensor) : self.take(tensor);
}

// Asked before the tensor is computed, for every node of every step: keep it cheap.
bool HiddenTap::wants(ggml_tensor* tensor) {
  if (tensor->op == GGML_OP_SCALE) rescale(tensor);
  return (!output_.empty() && names_.output_tensor == tensor->name) ||
         (!input_.empty() && names_.replace_tensor == tensor->name);
}

void HiddenTap::rescale(ggml_tensor* tensor) const {
  for (const model::ScalePatch& patch : names_.scales) {
    const ggml_tensor* named = patch.behind ? tensor->src[0] : tensor;
    if (named == nullptr || patch.tensor != named->name) continue;
    std::memcpy(tensor->op_params, &patch.scale, sizeof patch.scale);  // [0] factor, [1] bias
  }
}

// Called after the tensor is computed. False stops the graph here.
bool HiddenTap::take(ggml_tensor* tensor) {
  if (!input_.empty() && names_.replace_tensor == tensor->name) write_rows(tensor);
  if (output_.empty() || names_.output_tensor != tensor->name) return shape_fits_;
  read_rows(tensor);
  return false;
}

void HiddenTap::read_rows(const ggml_tensor* tensor) {
  const std::size_t count = element_count(tensor);
  if (!is_rows_of(tensor, output_width_) || count > output_.size() - output_done_) {
    shape_fits_ = false;
    return;
  }
  ggml_backend_tensor_get(tensor, output_.data() + output_done_, 0, count * sizeof(float));
  output_done_ += count;
}

void HiddenTap::write_rows(ggml_tensor* tensor) {
  const std::size_t count = element_count(tensor);
  if (!is_rows_of(tensor, input_width_) || count > input_.size() - input_done_) {
    shape_fits_ = false;
    return;
  }
  ggml_backend_tensor_set(tensor, input_.data() + input_done_, 0, count * sizeof(float));
  input_done_ += count;
}

}  // namespace salvage::engine
