#include "engine/llama/check_rows.h"

#include <algorithm>
#include <random>

namespace salvage::engine {
namespace {

constexpr std::uint64_t kSeed = 20240229;  // any
constexpr std::uint32_t kTextPlanes = 3;   // text repeats its position; a fourth plane stays 0

}  // namespace

CheckRows::CheckRows(const StageFacts& facts, std::uint32_t row_count) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal;
  tokens_.resize(row_count);
  for (TokenId& token : tokens_) {
    token = static_cast<TokenId>(random() % std::max(1U, facts.vocabulary_size));
  }
  if (facts.takes_tokens) return;
  hidden_.resize(std::size_t{row_count} * facts.row_width_in);
  for (float& value : hidden_) value = normal(random);
}

Result<void> CheckRows::run(StageEngine& engine, std::span<const CheckRow> rows,
                            std::size_t logit_rows, StepOutput& output) const {
  const StageFacts& facts = engine.facts();
  std::vector<TokenId> tokens;
  std::vector<float> hidden;
  std::vector<SequenceId> sequences;
  std::vector<std::int32_t> positions(rows.size() * facts.position_planes, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t index = rows[i].index;
    tokens.push_back(tokens_[index]);
    sequences.push_back(rows[i].sequence);
    if (!hidden_.empty()) {
      const auto row = hidden_.begin() + std::ptrdiff_t{index} * facts.row_width_in;
      hidden.insert(hidden.end(), row, row + facts.row_width_in);
    }
    for (std::uint32_t plane = 0; plane < std::min(kTextPlanes, facts.position_planes); ++plane) {
      positions[plane * rows.size() + i] = static_cast<std::int32_t>(index);
    }
  }
  std::vector<std::uint8_t> wants_logits(rows.size(), 1);
  if (logit_rows < rows.size()) {
    std::fill_n(wants_logits.begin(), rows.size() - logit_rows, std::uint8_t{0});
  }
  return engine.run({.tokens = tokens,
                     .hidden = hidden,
                     .positions = positions,
                     .sequences = sequences,
                     .wants_logits = wants_logits},
                    output);
}

}  // namespace salvage::engine
