#pragma once

// HiddenTap is how hidden states leave a shard, and how some enter, without a patch to libllama: it
// is the evaluation callback that ggml's scheduler asks about every tensor of the graph.
//
//   output_tensor    is copied into the caller's buffer; the rest of the graph (output norm and
//                    matrix, useless in a stage that isn't last) is then skipped.
//   replace_tensor   is overwritten with the rows that came in (architectures that take no
//                    embedding batch).
//   scales           multiply by what the shard's facts say instead of what libllama would derive
//                    from the kind of batch or the shard's own layer count.
//
// Rows come out in the order of libllama's ubatches, which StepBatch has made the order that it
// hands in. Thread rule: owned by one engine, called by its compute thread. Must not move while a
// context uses it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ggml.h>

#include "base/result.h"
#include "model/shard_facts.h"

namespace salvage::engine {

struct HiddenTapNames {
  std::string output_tensor;   // empty: nothing leaves
  std::string replace_tensor;  // empty: nothing enters
  std::vector<model::ScalePatch> scales;
  bool any() const { return !output_tensor.empty() || !replace_tensor.empty() || !scales.empty(); }
};

class HiddenTap {
 public:
  explicit HiddenTap(HiddenTapNames names);
  HiddenTap(const HiddenTap&) = delete;
  HiddenTap& operator=(const HiddenTap&) = delete;

  // Before a step: where rows go and where they come from. Either may be empty. Both are borrowed
  // until check(). Widths are floats a row.
  void begin(std::span<float> output, std::size_t output_width, std::span<const float> input,
             std::size_t input_width);

  // After a step that libllama calls a success: did exactly the expected rows pass?
  Result<void> check() const;

  // The shape of ggml_backend_sched_eval_callback; `tap` is a HiddenTap*.
  static bool on_tensor(ggml_tensor* tensor, bool ask, void* tap);

 private:
  bool wants(ggml_tensor* tensor);
  void rescale(ggml_tensor* tensor) const;
  bool take(ggml_tensor* tensor);
  void read_rows(const ggml_tensor* tensor);
  void write_rows(ggml_tensor* tensor);

  HiddenTapNames names_;
  std::span<float> output_;
  std::span<const float> input_;
  std::size_t output_width_ = 0;
  std::size_t input_width_ = 0;
  std::size_t output_done_ = 0;  // floats
  std::size_t input_done_ = 0;   // floats
  bool shape_fits_ = true;
};

}  // namespace salvage::engine
