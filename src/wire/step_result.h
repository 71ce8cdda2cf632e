#pragma once

// The step result: what the last stage tells the coordinator about one step. Row j belongs to the
// j-th row of the micro-batch that wanted logits. With kAll the logits are the frame's data section
// (row_count x vocabulary_size floats, little endian), received straight into the caller's buffer;
// the other forms are small and stand in the body.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "wire/frame.h"
#include "wire/micro_batch.h"

namespace salvage::wire {

struct StepResult {
  PlanEpoch epoch;       // header
  StepId step;           // header
  bool skipped = false;  // not every stage has computed it (wire/skip.h); there are no rows then
  LogitsForm form = LogitsForm::kAll;
  std::uint32_t row_count = 0;  // rows that wanted logits; may be 0
  std::uint32_t vocabulary_size = 0;
  std::uint32_t top_k = 0;            // kTopK: candidates a row, at most vocabulary_size
  std::vector<TokenId> ids;           // kTopK: row_count x top_k, by falling logit
  std::vector<float> logits;          // kTopK: row_count x top_k
  std::vector<float> log_sum_exp;     // kTopK: row_count
  std::vector<std::uint64_t> hashes;  // kHash: row_count
  std::vector<StageTiming> timings;   // in the order of the stages

  // Bytes of the data section: 0 unless kAll.
  std::uint64_t data_bytes() const {
    return form == LogitsForm::kAll ? std::uint64_t{row_count} * vocabulary_size * sizeof(float)
                                    : 0;
  }
  friend bool operator==(const StepResult&, const StepResult&) = default;
};

// Same rules as for MicroBatch.
Result<void> encode(const StepResult& result, std::vector<std::byte>& body);
Result<void> decode(const FrameHeader& header, std::span<const std::byte> body, StepResult& result);

// Fills ids, logits and log_sum_exp (or hashes) of `result` from all logits of its rows, row after
// row; `all_logits` holds row_count x vocabulary_size floats. Ties go to the lower id. NaN counts
// as lower than everything, so that it never hides a candidate. Does nothing for kAll.
void reduce_logits(std::span<const float> all_logits, StepResult& result);

// XXH3-64 of the bits of one row.
std::uint64_t hash_logits(std::span<const float> row);

}  // namespace salvage::wire
