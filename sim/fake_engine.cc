#include "sim/fake_engine.h"

#include <fmt/format.h>

namespace salvage::sim {
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t hash =
      (a ^ (b + 0x9E3779B97F4A7C15ULL + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9ULL;
  return hash ^ (hash >> 31);
}

std::uint64_t unpack(std::span<const float> row) {
  std::uint64_t hash = 0;
  for (const float part : row) hash = (hash << 16) | static_cast<std::uint64_t>(part);
  return hash;
}

void pack(std::uint64_t hash, std::span<float> row) {
  for (std::size_t i = row.size(); i-- > 0; hash >>= 16) row[i] = static_cast<float>(hash & 0xFFFF);
}

class FakeEngine final : public engine::StageEngine {
  // Running hash of each layer after each position: what one layer keeps is its own, so a cut
  // between layers changes nothing.
  using Cache = std::vector<std::vector<std::uint64_t>>;

 public:
  FakeEngine(const FakeStage& stage, const engine::StageOptions& options)
      : stage_(stage), options_(options), caches_(options.sequence_count_max) {
    facts_.architecture = "fake";
    facts_.layers = stage.layers;
    facts_.layer_count = stage.layer_count;
    facts_.takes_tokens = stage.layers.begin == 0;
    facts_.gives_logits = stage.layers.end == stage.layer_count;
    facts_.row_width_in = kFakeRowWidth;
    facts_.row_width_out = kFakeRowWidth;
    facts_.vocabulary_size = kFakeVocabulary;
    facts_.kernel_fingerprint = "fake";
    facts_.can_trim = !stage.recurrent;
    if (!stage.recurrent) return;
    facts_.checkpoint_count = options.checkpoint_count;
    facts_.checkpoint_bytes = stage.layers.count() * sizeof(std::uint64_t);
    checkpoints_.resize(options.checkpoint_count);
  }

  const engine::StageFacts& facts() const override { return facts_; }

  Result<void> apply(std::span<const engine::SequenceOp> ops) override {
    for (const engine::SequenceOp& op : ops) {
      if (op.sequence.value >= caches_.size()) return bad("sequence out of range");
      auto& cache = caches_[op.sequence.value];
      if (op.kind == engine::SequenceOpKind::kClear) cache.clear();
      if (op.kind == engine::SequenceOpKind::kTrim) {
        if (stage_.recurrent) return bad("a recurrent sequence can't be trimmed");
        if (static_cast<std::size_t>(op.position) > cache.size()) return bad("nothing to trim");
        cache.resize(static_cast<std::size_t>(op.position));
      }
      if (op.kind == engine::SequenceOpKind::kCopy) cache = caches_.at(op.source.value);
      if (op.kind == engine::SequenceOpKind::kSave) RETURN_IF_ERROR(save(op, cache));
      if (op.kind == engine::SequenceOpKind::kRestore) RETURN_IF_ERROR(restore(op, cache));
    }
    return {};
  }

  Result<void> run(const engine::MicroBatchView& batch, engine::StepOutput& output) override {
    if (++runs_ == stage_.fail_at_run) return fail(ErrorCode::kInternal, "the fake engine broke");
    output.hidden.resize(batch.tokens.size() * kFakeRowWidth);
    logits_.clear();
    for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
      if (batch.sequences[row].value >= caches_.size()) return bad("sequence out of range");
      auto& cache = caches_[batch.sequences[row].value];
      if (cache.size() != static_cast<std::size_t>(batch.positions[row])) {
        return bad(fmt::format("position {} on a cache of {}", batch.positions[row], cache.size()));
      }
      const std::uint64_t hash = run_layers(batch, row, cache);
      pack(hash, std::span(output.hidden).subspan(row * kFakeRowWidth, kFakeRowWidth));
      if (facts_.gives_logits && batch.wants_logits[row] != 0) add_logits(hash);
    }
    output.logits = logits_;
    return {};
  }

  Result<engine::SelfCheck> self_check() override {
    return engine::SelfCheck{.exact = true, .condition = "", .nmse = 0, .rows_compared = 1};
  }

 private:
  Result<void> save(const engine::SequenceOp& op, const Cache& cache) {
    if (op.checkpoint.value >= checkpoints_.size()) return bad("checkpoint out of range");
    if (cache.size() != static_cast<std::size_t>(op.position)) return bad("saved elsewhere");
    // The state alone, as a recurrent model has it: what the last position left behind.
    checkpoints_[op.checkpoint.value] = {op.position, cache.back()};
    return {};
  }

  Result<void> restore(const engine::SequenceOp& op, Cache& cache) {
    if (op.checkpoint.value >= checkpoints_.size()) return bad("checkpoint out of range");
    const Checkpoint& saved = checkpoints_[op.checkpoint.value];
    if (saved.position != op.position || op.position <= 0) return bad("no such checkpoint");
    cache.assign(static_cast<std::size_t>(op.position), saved.state);
    return {};
  }

  static tl::unexpected<Error> bad(std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  }

  std::uint64_t run_layers(const engine::MicroBatchView& batch, std::size_t row,
                           Cache& cache) const {
    std::uint64_t hash = facts_.takes_tokens
                             ? static_cast<std::uint64_t>(batch.tokens[row])
                             : unpack(batch.hidden.subspan(row * kFakeRowWidth, kFakeRowWidth));
    std::vector<std::uint64_t> after(stage_.layers.count());
    for (std::uint32_t layer = stage_.layers.begin; layer < stage_.layers.end; ++layer) {
      const std::uint32_t own = layer - stage_.layers.begin;
      const std::uint64_t past = cache.empty() ? 0 : cache.back()[own];
      hash = mix(mix(hash, layer), static_cast<std::uint64_t>(batch.positions[row]));
      hash = mix(hash, past);
      after[own] = mix(past, hash);
    }
    cache.push_back(std::move(after));
    return hash;
  }

  void add_logits(std::uint64_t hash) {
    for (std::uint32_t token = 0; token < kFakeVocabulary; ++token) {
      logits_.push_back(static_cast<float>(mix(hash, token) & 0xFFFFFF));
    }
  }

  FakeStage stage_;
  engine::StageOptions options_;
  engine::StageFacts facts_;
  struct Checkpoint {
    std::int32_t position = 0;
    std::vector<std::uint64_t> state;  // of each layer
  };
  std::vector<Cache> caches_;
  std::vector<Checkpoint> checkpoints_;
  std::vector<float> logits_;
  std::uint32_t runs_ = 0;
};

}  // namespace

std::unique_ptr<engine::StageEngine> make_fake_engine(const FakeStage& stage,
                                                      const engine::StageOptions& options) {
  return std::make_unique<FakeEngine>(stage, options);
}

}  // namespace salvage::sim
