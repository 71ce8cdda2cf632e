#include "engine/llama/checkpoint_check.h"

#include <cstring>
#include <span>
#include <vector>

#include "base/log.h"
#include "engine/llama/check_rows.h"

namespace salvage::engine {
namespace {

constexpr Logger kLog("engine");
// Two rows, a state, then two rows twice.
constexpr std::uint32_t kSavedAt = 2;
constexpr std::uint32_t kRowsEnd = 4;

class CheckpointCheck {
 public:
  CheckpointCheck(StageEngine& engine, llama_context* context)
      : engine_(engine), context_(context), rows_(engine.facts(), kRowsEnd) {}

  // Bytes of a state; 0 if states grow, or don't bring the same bits back.
  Result<std::uint64_t> run() {
    RETURN_IF_ERROR(run_row(0));
    const std::uint64_t bytes = state_bytes(context_, kSequence);
    RETURN_IF_ERROR(run_row(1));
    if (bytes == 0 || state_bytes(context_, kSequence) != bytes) return 0;
    CheckpointStore store(1, bytes);
    if (!store.save(context_, kSequence, kCheckpoint, kSavedAt)) return 0;
    ASSIGN_OR_RETURN(const std::vector<float> before, run_rest());
    if (!store.restore(context_, kSequence, kCheckpoint, kSavedAt)) return 0;
    ASSIGN_OR_RETURN(const std::vector<float> after, run_rest());
    const bool same = before.size() == after.size() &&
                      std::memcmp(before.data(), after.data(), before.size() * sizeof(float)) == 0;
    return same ? bytes : 0;
  }

 private:
  static constexpr SequenceId kSequence{0};
  static constexpr CheckpointId kCheckpoint{0};

  Result<void> run_row(std::uint32_t index) {
    const CheckRow row{kSequence, index};
    return rows_.run(engine_, {&row, 1}, 1, output_);
  }

  Result<std::vector<float>> run_rest() {
    std::vector<float> all;
    for (std::uint32_t index = kSavedAt; index < kRowsEnd; ++index) {
      RETURN_IF_ERROR(run_row(index));
      const std::span<const float> row =
          engine_.facts().gives_logits ? output_.logits : std::span<const float>(output_.hidden);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  StageEngine& engine_;
  llama_context* context_;
  CheckRows rows_;
  StepOutput output_;
};

}  // namespace

Result<CheckpointStore> prove_checkpoints(StageEngine& engine, llama_context* context,
                                          std::uint32_t count) {
  const Result<std::uint64_t> bytes = CheckpointCheck(engine, context).run();
  const SequenceOp forget{.kind = SequenceOpKind::kClear, .sequence = {}, .source = {}};
  RETURN_IF_ERROR(engine.apply({&forget, 1}));
  if (!bytes) return fail(bytes.error());
  if (*bytes != 0) return CheckpointStore(count, *bytes);
  kLog.warn("no_checkpoints", {{"architecture", engine.facts().architecture}});
  return CheckpointStore();
}

}  // namespace salvage::engine
