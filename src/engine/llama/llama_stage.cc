#include "engine/llama/llama_stage.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "engine/llama/backend.h"
#include "engine/llama/checkpoint_check.h"
#include "engine/llama/checkpoint_store.h"
#include "engine/llama/self_check.h"
#include "engine/llama/stage_loader.h"

namespace salvage::engine {
namespace {

// Past this position a lone row's attention over an f16 cache is split among threads (libllama pads
// the cache to 256 cells, ggml splits from 512 cells on).
constexpr std::uint32_t kUnsplitPositionsMax = 256;

// Rows of `width` values, in the order of the batch again: row i stands at places[i].
void gather_rows(std::span<const float> from, std::span<const std::uint32_t> places,
                 std::size_t width, std::vector<float>& into) {
  into.resize(places.size() * width);
  for (std::size_t row = 0; row < places.size(); ++row) {
    const auto source = from.subspan(places[row] * width, width);
    std::copy(source.begin(), source.end(),
              into.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
}

class LlamaStage final : public StageEngine {
 public:
  static Result<std::unique_ptr<StageEngine>> load(const StageOptions& options,
                                                   const LoadProgress& progress);

  const StageFacts& facts() const override { return facts_; }
  Result<void> apply(std::span<const SequenceOp> ops) override;
  Result<void> run(const MicroBatchView& batch, StepOutput& output) override;
  Result<SelfCheck> self_check() override;

 private:
  LlamaStage(StageOptions options, StagePlan plan, ComputeThreads threads)
      : options_(std::move(options)),
        plan_(std::move(plan)),
        tap_(plan_.tap_names()),
        threads_(std::move(threads)) {}

  BatchLimits limits() const;
  Result<void> apply_one(const SequenceOp& op);
  Result<void> make_checkpoints();
  Result<void> check_positions(const MicroBatchView& batch) const;
  Result<std::span<const float>> enter_rows(const MicroBatchView& batch);
  Result<void> run_checked(const MicroBatchView& batch, StepOutput& output);
  Result<void> decode(const llama_batch& batch, bool causal);
  Result<void> take_logits(const MicroBatchView& batch, StepOutput& output);
  std::optional<std::string> known_condition() const;

  StageOptions options_;
  StagePlan plan_;
  HiddenTap tap_;
  ModelHandle model_;
  ComputeThreads threads_;
  ContextHandle context_;  // uses all of the above
  std::optional<StepBatch> batch_;
  CheckpointStore checkpoints_;
  StageFacts facts_;
  bool causal_default_ = true;
  std::vector<float> embedded_;   // rows out of the embedding table
  std::vector<float> unordered_;  // hidden states or logits as libllama ordered them
};

Result<std::unique_ptr<StageEngine>> LlamaStage::load(const StageOptions& options,
                                                      const LoadProgress& progress) {
  RETURN_IF_ERROR(start_backend());
  ASSIGN_OR_RETURN(StagePlan plan, plan_stage(options));
  ASSIGN_OR_RETURN(ComputeThreads threads,
                   ComputeThreads::create(options.thread_count, options.cores));
  std::unique_ptr<LlamaStage> stage(new LlamaStage(options, std::move(plan), std::move(threads)));
  ASSIGN_OR_RETURN(stage->model_, load_weights(stage->plan_, progress));
  HiddenTap* tap = stage->plan_.tap_names().any() ? &stage->tap_ : nullptr;
  ASSIGN_OR_RETURN(stage->context_, make_context(stage->model_.get(), stage->plan_, options, tap));
  stage->threads_.attach(stage->context_.get());
  ASSIGN_OR_RETURN(stage->facts_, describe_stage(stage->context_.get(), stage->plan_, options));
  stage->causal_default_ = !llama_model_is_diffusion(stage->model_.get());
  stage->batch_.emplace(stage->limits());
  RETURN_IF_ERROR(stage->make_checkpoints());
  return std::unique_ptr<StageEngine>(std::move(stage));
}

BatchLimits LlamaStage::limits() const {
  return {.rows_max = std::min(options_.rows_max, llama_n_ubatch(context_.get())),
          .logit_rows_max = std::max(options_.logit_rows_max, options_.sequence_count_max),
          .sequence_count_max = options_.sequence_count_max,
          .context_per_sequence = options_.context_per_sequence,
          .vocabulary_size = facts_.vocabulary_size,
          .position_planes = facts_.position_planes,
          .row_width_in = facts_.row_width_in,
          .gives_logits = facts_.gives_logits};
}

// Only where a state turns out to have one size and to bring the same bits back; else the stage has
// no checkpoints, and says so.
Result<void> LlamaStage::make_checkpoints() {
  if (facts_.can_trim || options_.checkpoint_count == 0) return {};
  ASSIGN_OR_RETURN(checkpoints_,
                   prove_checkpoints(*this, context_.get(), options_.checkpoint_count));
  facts_.checkpoint_count = checkpoints_.count();
  facts_.checkpoint_bytes = checkpoints_.bytes();
  return {};
}

Result<void> LlamaStage::apply(std::span<const SequenceOp> ops) {
  for (const SequenceOp& op : ops) RETURN_IF_ERROR(apply_one(op));
  return {};
}

Result<void> LlamaStage::apply_one(const SequenceOp& op) {
  if (op.sequence.value >= options_.sequence_count_max ||
      op.source.value >= options_.sequence_count_max) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sequence {} or {} of at most {}", op.sequence.value, op.source.value,
                            options_.sequence_count_max));
  }
  llama_memory_t memory = llama_get_memory(context_.get());
  if (memory == nullptr) return {};
  const auto sequence = static_cast<llama_seq_id>(op.sequence.value);
  switch (op.kind) {
    case SequenceOpKind::kClear:
      llama_memory_seq_rm(memory, sequence, -1, -1);  // A whole sequence can always be removed.
      return {};
    case SequenceOpKind::kTrim:
      if (op.position < 0) {
        return fail(ErrorCode::kInvalidArgument, fmt::format("trim to {}", op.position));
      }
      if (!llama_memory_seq_rm(memory, sequence, op.position, -1)) {
        return fail(ErrorCode::kUnsupported,
                    fmt::format("{} keeps a running state: sequence {} can't be cut back to {}",
                                facts_.architecture, sequence, op.position));
      }
      return {};
    case SequenceOpKind::kCopy:
      if (op.sequence == op.source) return {};
      llama_memory_seq_rm(memory, sequence, -1, -1);
      llama_memory_seq_cp(memory, static_cast<llama_seq_id>(op.source.value), sequence, -1, -1);
      return {};
    case SequenceOpKind::kSave:
      return checkpoints_.save(context_.get(), op.sequence, op.checkpoint, op.position);
    case SequenceOpKind::kRestore:
      return checkpoints_.restore(context_.get(), op.sequence, op.checkpoint, op.position);
  }
  return fail(ErrorCode::kInvalidArgument, "unknown sequence operation");
}

// A sequence goes on where its cache ends. Under M-RoPE an image's rows share positions, so there a
// batch of rows may repeat the last position.
Result<void> LlamaStage::check_positions(const MicroBatchView& batch) const {
  llama_memory_t memory = llama_get_memory(context_.get());
  if (memory == nullptr) return {};  // Nothing is remembered, so nothing is continued.
  const bool chunk = batch.sequences.front() == batch.sequences.back();
  const std::size_t starts = chunk ? 1 : batch.sequences.size();
  for (std::size_t row = 0; row < starts; ++row) {
    const auto sequence = static_cast<llama_seq_id>(batch.sequences[row].value);
    const llama_pos last = llama_memory_seq_pos_max(memory, sequence);
    const llama_pos begin = batch.positions[row];
    const bool fits = facts_.position_planes == 1            ? begin == last + 1
                      : plan_.row_input() == RowInput::kRows ? begin >= last
                                                             : begin > last;
    if (!fits) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("sequence {} ends at position {}, a row for {} came", sequence, last, begin));
    }
  }
  return {};
}

Result<std::span<const float>> LlamaStage::enter_rows(const MicroBatchView& batch) {
  if (!plan_.table) return batch.hidden;
  embedded_.resize(batch.tokens.size() * plan_.shard.row_width_in);
  RETURN_IF_ERROR(plan_.table->read(batch.tokens, embedded_));
  return std::span<const float>(embedded_);
}

Result<void> LlamaStage::run(const MicroBatchView& batch, StepOutput& output) {
  try {
    RETURN_IF_ERROR(batch_->check(batch));
    RETURN_IF_ERROR(check_positions(batch));
    return run_checked(batch, output);
  } catch (const std::exception& thrown) {  // libllama's, or out of memory
    return fail(ErrorCode::kInternal, fmt::format("step failed: {}", thrown.what()));
  }
}

Result<void> LlamaStage::run_checked(const MicroBatchView& batch, StepOutput& output) {
  ASSIGN_OR_RETURN(const std::span<const float> rows, enter_rows(batch));
  const RowInput input = plan_.row_input();
  const llama_batch laid_out = batch_->lay_out(batch, input, rows);
  const std::size_t width = facts_.row_width_out;
  const bool ordered = batch_->places().empty();
  std::vector<float>& hidden = ordered ? output.hidden : unordered_;
  hidden.resize(batch.tokens.size() * width);
  tap_.begin(hidden, width,
             input == RowInput::kPlaceholder ? batch_->rows() : std::span<const float>(),
             facts_.row_width_in);
  threads_.enter();
  RETURN_IF_ERROR(decode(laid_out, batch.causal));
  RETURN_IF_ERROR(tap_.check());
  output.logits = {};
  if (facts_.gives_logits) return take_logits(batch, output);
  if (!ordered) gather_rows(unordered_, batch_->places(), width, output.hidden);
  return {};
}

Result<void> LlamaStage::decode(const llama_batch& batch, bool causal) {
  llama_set_causal_attn(context_.get(), causal && causal_default_);
  clear_backend_log();
  const std::int32_t outcome = llama_decode(context_.get(), batch);
  switch (outcome) {
    case 0:
      return {};
    case 1:
      return fail(
          backend_error(ErrorCode::kResourceExhausted,
                        fmt::format("no room in the KV cache for {} rows", batch.n_tokens)));
    case -1:
      return fail(backend_error(ErrorCode::kInvalidArgument, "libllama refused the micro-batch"));
    default:
      return fail(backend_error(ErrorCode::kInternal,
                                fmt::format("libllama failed a step with {}", outcome)));
  }
}

Result<void> LlamaStage::take_logits(const MicroBatchView& batch, StepOutput& output) {
  const std::size_t count = batch_->logit_row_count();
  if (count == 0) return {};
  const std::size_t width = facts_.vocabulary_size;
  const float* logits = llama_get_logits(context_.get());
  if (logits == nullptr) return fail(ErrorCode::kInternal, "libllama has no logits");
  output.logits = {logits, count * width};
  if (batch_->places().empty()) return {};
  // Rows without logits leave gaps: count through the laid out order first.
  std::vector<std::uint32_t> number(batch.tokens.size(), 0);
  const auto places = batch_->places();
  for (std::size_t row = 0; row < places.size(); ++row) {
    number[places[row]] = batch.wants_logits[row] != 0 ? 1 : 0;
  }
  std::uint32_t next = 0;
  for (std::uint32_t& at : number) at = at != 0 ? next++ : 0;
  std::vector<std::uint32_t> wanted;
  for (std::size_t row = 0; row < places.size(); ++row) {
    if (batch.wants_logits[row] != 0) wanted.push_back(number[places[row]]);
  }
  gather_rows(output.logits, wanted, width, unordered_);
  output.logits = unordered_;
  return {};
}

// What moves bits beyond the rows that the self check runs.
std::optional<std::string> LlamaStage::known_condition() const {
  const std::uint32_t exact_max = facts_.rows_exact_max;
  if (!options_.exact && exact_max != 0 && limits().rows_max > exact_max) {
    return fmt::format("micro-batches of more than {} rows take other kernels", exact_max);
  }
  const bool f16 =
      options_.cache_type_k == CacheType::kF16 && options_.cache_type_v == CacheType::kF16;
  if (!f16 || options_.thread_count == 1 || options_.context_per_sequence <= kUnsplitPositionsMax) {
    return std::nullopt;
  }
  return fmt::format(
      "with an f16 KV cache and {} threads, a row alone differs from the same row in "
      "company after position {}",
      options_.thread_count, kUnsplitPositionsMax);
}

Result<SelfCheck> LlamaStage::self_check() {
  BatchLimits limits = this->limits();
  // Only an exact stage's callers keep to it; what the others will do is what must be checked.
  if (options_.exact && facts_.rows_exact_max != 0) {
    limits.rows_max = std::min(limits.rows_max, facts_.rows_exact_max);
  }
  ASSIGN_OR_RETURN(
      SelfCheck result,
      check_row_independence(*this, {.rows_max = limits.rows_max,
                                     .logit_rows_max = limits.logit_rows_max,
                                     .sequence_count_max = limits.sequence_count_max,
                                     .context_per_sequence = limits.context_per_sequence}));
  const auto condition = known_condition();
  if (result.exact && condition) {
    result.exact = false;
    result.condition = *condition;
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<StageEngine>> make_llama_stage_engine(const StageOptions& options,
                                                             const LoadProgress& progress) {
  try {
    return LlamaStage::load(options, progress);
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInternal, fmt::format("loading failed: {}", thrown.what()));
  }
}

}  // namespace salvage::engine
