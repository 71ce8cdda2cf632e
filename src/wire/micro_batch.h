#pragma once

// The micro-batch: what one stage hands to the next for one step. Fixed little-endian layout, no
// allocation once a MicroBatch object has seen its largest batch: decode into the same object
// again. Hidden states are not in here: they are the frame's data section (wire/hidden.h), received
// straight into the caller's buffer after this body said how large they are.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "wire/frame.h"
#include "wire/hidden.h"

namespace salvage::wire {

// Changes to the KV cache of every stage, applied in order before the rows. A kind that a stage
// does not know is refused, not skipped, so save and restore go only to pipelines all of whose
// stages said that they have checkpoints (StageLoaded). Number 3 is reserved for keep.
enum class SequenceOpKind : std::uint8_t {
  kClear = 0,    // Forget all of `sequence`.
  kTrim = 1,     // Forget positions >= `position` of `sequence`.
  kCopy = 2,     // `sequence` becomes a copy of all of `source`.
  kSave = 4,     // `checkpoint` becomes the state of `sequence`, which ends before `position`.
  kRestore = 5,  // `sequence` goes back to where `checkpoint` was saved, which was `position`.
};
bool names_checkpoint(SequenceOpKind kind);
struct SequenceOp {
  SequenceOpKind kind = SequenceOpKind::kClear;
  SequenceId sequence;
  SequenceId source;          // all but kSave and kRestore; kCopy alone reads it
  std::int32_t position = 0;  // kTrim, kSave, kRestore
  CheckpointId checkpoint;    // kSave and kRestore, in the place of `source`
  friend bool operator==(const SequenceOp&, const SequenceOp&) = default;
};

enum class LogitsForm : std::uint8_t {
  kAll = 0,   // vocabulary_size floats a row
  kTopK = 1,  // the k highest, descending, with the log-sum-exp over all
  kHash = 2,  // XXH3-64 of the row's float bits, for comparing runs
};
struct LogitsRequest {
  LogitsForm form = LogitsForm::kAll;
  std::uint32_t top_k = 0;  // kTopK only
  friend bool operator==(const LogitsRequest&, const LogitsRequest&) = default;
};

// What one stage did with one micro-batch. Stages append theirs in order when asked to.
struct StageTiming {
  StageIndex stage;
  std::uint32_t queue_us = 0;  // received until compute began
  std::uint32_t compute_us = 0;
  std::uint32_t send_us = 0;  // of the stage's previous frame: its own is not sent yet
  friend bool operator==(const StageTiming&, const StageTiming&) = default;
};

// Row i has tokens[i], sequences[i], wants_logits[i] and positions[plane * row_count + i].
struct MicroBatch {
  PlanEpoch epoch;  // header
  StepId step;      // header
  std::vector<SequenceOp> ops;
  std::vector<TokenId> tokens;             // row_count ids, always: some stages look them up again
  std::uint8_t position_planes = 1;        // 1 or 4
  std::vector<std::int32_t> positions;     // position_planes x row_count
  std::vector<SequenceId> sequences;       // row_count
  std::vector<std::uint8_t> wants_logits;  // row_count of 0 or 1
  bool causal = true;
  bool wants_timing = false;
  // Some stage before left its rows out (wire/skip.h), and so does everybody after. Operations
  // apply, but saves: what they would save was not computed.
  bool skipped = false;
  LogitsRequest logits;
  HiddenShape hidden;  // rows == row_count, or all 0: the first stage gets ids only, or skipped
  std::vector<StageTiming> timings;

  std::uint32_t row_count() const { return static_cast<std::uint32_t>(tokens.size()); }
  friend bool operator==(const MicroBatch&, const MicroBatch&) = default;
};

// Replaces `body`. `invalid_argument` if the lists don't fit together or exceed a limit.
Result<void> encode(const MicroBatch& batch, std::vector<std::byte>& body);

// Replaces `batch`. Epoch and step come from the header. On failure `batch` is unspecified but
// valid. The header's data_bytes must be those of the hidden states that the body announces.
Result<void> decode(const FrameHeader& header, std::span<const std::byte> body, MicroBatch& batch);

// Permission to send `count` more micro-batches, from a receiver to its sender.
struct Credit {
  std::uint32_t count = 0;
  friend bool operator==(const Credit&, const Credit&) = default;
};
Result<void> encode(const Credit& credit, std::vector<std::byte>& body);
Result<void> decode(const FrameHeader& header, std::span<const std::byte> body, Credit& credit);

}  // namespace salvage::wire
