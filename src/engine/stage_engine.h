#pragma once

// StageEngine runs one stage of a pipeline: hidden states (or token ids) in, hidden states (or
// logits) out. It is an opaque executor: today one libllama context with one shard
// (engine/llama/), later also a group of devices. Nothing above engine/ may assume which.
//
// Thread rule: one thread at a time calls an engine; load and run may be different threads.
// Failure: a call that fails leaves the engine usable unless the error says `internal`; the
// executor below may also abort its process, which is why a stage lives in a process of its own.
// A stage has no state but its KV cache; everything else arrives with each micro-batch.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/cache_type.h"

namespace salvage::engine {

struct StageOptions {
  std::filesystem::path weights;  // A shard (model/shard.h), or a whole model for one stage.
  std::filesystem::path
      embedding_table;  // First stage only, and only if its shard takes hidden states.
  std::uint32_t context_per_sequence = 4096;  // tokens
  std::uint32_t sequence_count_max = 1;       // 1 .. 64
  std::uint32_t rows_max = 128;               // rows of one micro-batch
  std::uint32_t logit_rows_max = 16;          // rows of one micro-batch that may ask for logits
  std::uint32_t thread_count = 1;
  std::vector<std::uint32_t> cores;  // Pins compute threads to these cores; empty = wherever.
  CacheType cache_type_k = CacheType::kQ8_0;
  CacheType cache_type_v = CacheType::kQ8_0;
  bool exact = false;  // Trade speed for bits that never depend on how rows are grouped.
  // Saved states that a model whose sequences can't be cut back shall have room for, all sequences
  // together; others need none.
  std::uint32_t checkpoint_count = 0;
};

struct StageMemory {
  std::uint64_t weights_bytes = 0;
  std::uint64_t kv_cache_bytes = 0;
  std::uint64_t compute_bytes = 0;
};

// What a stage turned out to be, once loaded.
struct StageFacts {
  std::string architecture;
  LayerRange layers;
  std::uint32_t layer_count = 0;  // of the whole model
  bool takes_tokens = false;      // First stage: ids only. Otherwise rows of row_width_in floats.
  bool gives_logits = false;      // Last stage. Otherwise rows of row_width_out floats.
  std::uint32_t row_width_in = 0;
  std::uint32_t row_width_out = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t position_planes = 1;  // 4 for M-RoPE and IM-RoPE models
  bool can_trim =
      true;  // False: recurrent state, a sequence can only grow, be copied, cleared, or restored.
  // Saved states that this stage holds room for; 0 if it can trim, or can't save and restore a
  // state exactly, which it tries when it loads.
  std::uint32_t checkpoint_count = 0;
  std::uint64_t checkpoint_bytes = 0;  // of one of them, here
  std::uint32_t rows_exact_max = 0;  // Rows of one micro-batch up to which bits are exact; 0 = any.
  std::string kernel_fingerprint;    // Same string = same instruction set, kernels, build flags.
  StageMemory memory;
};

// Changes to the KV cache, applied in order before the rows of the micro-batch they come with.
enum class SequenceOpKind : std::uint8_t {
  kClear = 0,  // Forget all of `sequence`.
  kTrim = 1,   // Forget positions >= `position` of `sequence`.
  kCopy = 2,   // `sequence` becomes a copy of all of `source`.
  // 3 is reserved on the wire.
  kSave = 4,     // `checkpoint` becomes the state of `sequence`, which ends before `position`.
  kRestore = 5,  // `sequence` goes back to where `checkpoint` was saved, which was `position`.
};
// A checkpoint holds what can't be cut back, no keys and values: it may be restored into a sequence
// whose tokens before `position` are those that were there when it was saved.
struct SequenceOp {
  SequenceOpKind kind = SequenceOpKind::kClear;
  SequenceId sequence;
  SequenceId source;          // kCopy
  std::int32_t position = 0;  // kTrim, kSave, kRestore
  CheckpointId checkpoint;    // kSave, kRestore
  friend bool operator==(const SequenceOp&, const SequenceOp&) = default;
};

// One micro-batch, borrowed from the caller for the duration of run(). Row i has tokens[i],
// sequences[i], wants_logits[i] and the positions positions[plane * row_count + i].
// Either one chunk of one sequence, in order of position, or at most one row for each of several
// sequences; anything else is refused.
struct MicroBatchView {
  std::span<const TokenId> tokens;  // row_count ids, always
  std::span<const float> hidden;    // row_count x row_width_in; empty if the stage takes tokens
  std::span<const std::int32_t> positions;     // position_planes x row_count
  std::span<const SequenceId> sequences;       // row_count
  std::span<const std::uint8_t> wants_logits;  // row_count; read by the last stage only
  bool causal = true;
};

// Filled by run(). `hidden` is the caller's buffer, resized as needed and kept between steps;
// `logits` points into the engine and is valid until the next call.
struct StepOutput {
  std::vector<float> hidden;      // row_count x row_width_out, in the order of the batch
  std::span<const float> logits;  // (rows with wants_logits) x vocabulary_size, in that order
};

// What a stage found out about its own kernels at load: rows computed alone, in a group and in a
// chunk, compared bit by bit.
struct SelfCheck {
  bool exact = false;
  std::string condition;  // If not exact: what moves bits, "rows alone and in a group of 4 differ".
  double nmse = 0;        // worst case seen, 0 if exact
  std::uint32_t rows_compared = 0;
};

class StageEngine {
 public:
  virtual ~StageEngine() = default;

  virtual const StageFacts& facts() const = 0;

  // Applies changes to the KV cache. A trim that the model cannot do fails with `unsupported`, a
  // checkpoint that isn't there, or is of another position, with `invalid_argument`.
  virtual Result<void> apply(std::span<const SequenceOp> ops) = 0;

  // Runs one micro-batch. Ids, positions and sequences are checked against the limits first.
  virtual Result<void> run(const MicroBatchView& batch, StepOutput& output) = 0;

  // Proves (or disproves) on this stage's own weights that a row's bits don't depend on its
  // neighbours, for the groupings that `rows_max` and `sequence_count_max` allow. Clears the cache.
  virtual Result<SelfCheck> self_check() = 0;
};

// `progress` is called with 0..1 from the loading thread; returning false cancels the load.
using LoadProgress = std::function<bool(double)>;

// How the layers above get an engine without knowing which: app/ passes the concrete one.
using StageEngineFactory =
    std::function<Result<std::unique_ptr<StageEngine>>(const StageOptions&, const LoadProgress&)>;

}  // namespace salvage::engine
