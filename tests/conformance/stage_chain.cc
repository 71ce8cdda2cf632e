#include "stage_chain.h"

#include <utility>

namespace salvage::conformance {
namespace {

// The arrays of one micro-batch of sequence 0, every row with logits.
struct Group {
  std::vector<std::int32_t> positions;
  std::vector<SequenceId> sequences;
  std::vector<std::uint8_t> wants_logits;

  Group(std::size_t begin, std::size_t count, std::uint32_t planes)
      : sequences(count), wants_logits(count, 1) {
    for (std::uint32_t plane = 0; plane < planes; ++plane) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto position = static_cast<std::int32_t>(begin + i);
        positions.push_back(plane < 3 ? position : 0);  // Text: t = h = w, the fourth unused.
      }
    }
  }
};

Result<void> clear(std::span<engine::StageEngine* const> stages) {
  const engine::SequenceOp forget{};
  for (engine::StageEngine* stage : stages) RETURN_IF_ERROR(stage->apply({&forget, 1}));
  return {};
}

}  // namespace

Result<Logits> run_stages(std::span<engine::StageEngine* const> stages, const RunPlan& plan,
                          const HiddenHook& on_hidden) {
  RETURN_IF_ERROR(clear(stages));
  Logits logits;
  logits.vocabulary_size = stages.back()->facts().vocabulary_size;
  std::size_t begin = 0;
  for (const std::size_t count : plan.groups) {
    const std::span<const TokenId> tokens(plan.tokens.data() + begin, count);
    std::vector<float> hidden;
    for (std::size_t index = 0; index < stages.size(); ++index) {
      const Group group(begin, count, stages[index]->facts().position_planes);
      engine::StepOutput output;
      RETURN_IF_ERROR(stages[index]->run(
          {tokens, hidden, group.positions, group.sequences, group.wants_logits}, output));
      if (index + 1 == stages.size()) {
        logits.values.insert(logits.values.end(), output.logits.begin(), output.logits.end());
      }
      hidden = std::move(output.hidden);
      if (on_hidden && index + 1 < stages.size()) on_hidden(index, hidden);
    }
    begin += count;
  }
  return logits;
}

}  // namespace salvage::conformance
