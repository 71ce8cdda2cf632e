#include "fixture_check.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "restore_check.h"
#include "shard_set.h"
#include "splits.h"
#include "stage_chain.h"
#include "whole_model.h"

namespace salvage::conformance {
namespace {

// Chunks of the prompt: all of it at once, and four that no window or tile size divides.
constexpr std::size_t kChunks[] = {kPromptTokens, 12};

// A run of the plan and what the whole model says to it.
struct Expected {
  RunPlan plan;
  Logits logits;
};

struct Reference {
  CacheType cache_type = CacheType::kQ8_0;
  std::vector<Expected> runs;  // one for each of kChunks
};

Result<Reference> whole_model_says(const FixtureCheck& check) {
  Reference reference;
  auto whole = WholeModel::load(check.model, CacheType::kQ8_0);
  if (!whole) {  // No flash attention, or heads that q8_0 does not divide.
    reference.cache_type = CacheType::kF16;
    whole = WholeModel::load(check.model, CacheType::kF16);
  }
  if (!whole) return fail(whole.error());
  for (const std::size_t chunk : kChunks) {
    Expected expected;
    expected.plan = make_run_plan(whole->vocabulary_size(), chunk, check.seed);
    ASSIGN_OR_RETURN(expected.logits, whole->run(expected.plan));
    if (const auto why = degenerate(expected.logits)) return fail(ErrorCode::kInternal, *why);
    reference.runs.push_back(std::move(expected));
  }
  return reference;
}

std::string describe(const Split& split, const Expected& expected, const Difference& difference) {
  return fmt::format(
      "split {} in chunks of {}: {} of {} positions differ, the first at {}, NMSE "
      "{:.1e}, {} other argmax",
      split_name(split), expected.plan.groups.front(), difference.position_count,
      expected.logits.position_count(), difference.first_position, difference.nmse,
      difference.argmax_count);
}

// Nothing if this split gives the whole model's bits, else what is wrong with it.
std::optional<std::string> compare_split(ShardSet& shards, const Split& split,
                                         const Reference& reference) {
  const auto stages = shards.stages(split);
  if (!stages) return "split " + split_name(split) + ": " + stages.error().message();
  for (const Expected& expected : reference.runs) {
    const auto logits = run_stages(*stages, expected.plan);
    if (!logits) return "split " + split_name(split) + ": " + logits.error().message();
    if (const auto difference = compare_bits(expected.logits, *logits)) {
      return describe(split, expected, *difference);
    }
  }
  return std::nullopt;
}

// Whole and in two stages, in small chunks: those have a place to go back to within the prompt.
std::optional<std::string> compare_after_restore(ShardSet& shards, const std::vector<Split>& splits,
                                                 const Reference& reference, Outcome& outcome) {
  for (const Split& split : splits) {
    if (split.size() > 2) break;
    const auto stages = shards.stages(split);
    if (!stages) return "split " + split_name(split) + ": " + stages.error().message();
    outcome.next_turn = next_turn(*stages);
    if (const auto why = check_restore(*stages, reference.runs.back().plan)) {
      return "split " + split_name(split) + ": " + *why;
    }
    if (split.size() == 2) break;
  }
  return std::nullopt;
}

std::vector<Split> legal_splits(const model::SplitRules& rules, std::size_t stage_count) {
  std::vector<Split> legal;
  for (Split& split : all_splits(rules.layer_count, stage_count)) {
    if (rules.check_split(split)) legal.push_back(std::move(split));
  }
  return legal;
}

std::vector<Split> splits_to_compare(const model::SplitRules& rules, const FixtureCheck& check) {
  std::vector<Split> splits = {{{0, rules.layer_count}}};
  for (Split& split : legal_splits(rules, 2)) splits.push_back(std::move(split));
  const std::size_t counts_max[] = {check.three_stage_splits_max, check.four_stage_splits_max};
  for (std::size_t i = 0; i < 2; ++i) {
    auto chosen = choose_splits(legal_splits(rules, i + 3), counts_max[i], check.seed);
    for (Split& split : chosen) splits.push_back(std::move(split));
  }
  return splits;
}

// Every cut that is not legal must be refused when its shards are asked for, with a message that
// names the architecture. Nothing if that is so.
std::optional<std::string> illegal_cut_made(ShardSet& shards, const model::SplitRules& rules) {
  for (std::uint32_t cut = 1; cut < rules.layer_count; ++cut) {
    const Split split = {{0, cut}, {cut, rules.layer_count}};
    if (rules.check_split(split)) continue;
    const auto stages = shards.stages(split);
    if (stages) return fmt::format("cut {} is not legal, but its shards were made", cut);
    if (stages.error().message().find(rules.architecture) == std::string::npos) {
      return fmt::format("the refusal of cut {} does not name the architecture: {}", cut,
                         stages.error().message());
    }
  }
  return std::nullopt;
}

// What may not be cut runs whole, and its conversations go on like others'. Some can't even do
// that.
std::optional<std::string> check_whole_restore(ShardSet& shards, const model::SplitRules& rules,
                                               const FixtureCheck& check, Outcome& outcome) {
  shards.use_settings(
      {.sequence_count_max = kRestoreSequences, .checkpoint_count = kRestoreCheckpoints});
  const auto stages = shards.stages({{0, rules.layer_count}});
  if (!stages) return std::nullopt;
  outcome.next_turn = next_turn(*stages);
  return check_restore(
      *stages, make_run_plan((*stages)[0]->facts().vocabulary_size, kChunks[1], check.seed));
}

Outcome wrong(Outcome outcome, std::string reason) {
  outcome.verdict = Verdict::kWrong;
  outcome.reason = std::move(reason);
  return outcome;
}

Outcome refused(Outcome outcome, std::string reason) {
  outcome.verdict = Verdict::kRefused;
  outcome.reason = std::move(reason);
  return outcome;
}

Outcome compare(Outcome outcome, const FixtureCheck& check, const model::SplitRules& rules,
                ShardSet& shards) {
  const auto reference = whole_model_says(check);
  if (!reference) return wrong(std::move(outcome), reference.error().message());
  shards.use_settings({.cache_type = reference->cache_type,
                       .sequence_count_max = kRestoreSequences,
                       .checkpoint_count = kRestoreCheckpoints});
  outcome.cache_type = cache_type_name(reference->cache_type);
  outcome.chunks_change_bits =
      compare_bits(reference->runs[0].logits, reference->runs[1].logits).has_value();
  for (const Split& split : splits_to_compare(rules, check)) {
    if (const auto why = compare_split(shards, split, *reference)) {
      return wrong(std::move(outcome), *why);
    }
    ++outcome.split_count;
  }
  if (const auto why =
          compare_after_restore(shards, splits_to_compare(rules, check), *reference, outcome)) {
    return wrong(std::move(outcome), *why);
  }
  outcome.verdict = Verdict::kExact;
  return outcome;
}

}  // namespace

Outcome check_fixture(const FixtureCheck& check) {
  Outcome outcome;
  auto model = model::Gguf::open(check.model);
  if (!model) return wrong(std::move(outcome), model.error().message());
  const auto rules = model::split_rules(*model, check.unproven);
  if (!rules) return refused(std::move(outcome), rules.error().message());
  outcome.architecture = rules->architecture;
  outcome.layer_count = rules->layer_count;
  outcome.legal_cuts = rules->cuts();
  ShardSet shards(*model, check.model, check.work_folder, check.unproven);
  if (const auto why = illegal_cut_made(shards, *rules)) return wrong(std::move(outcome), *why);
  if (!rules->splittable()) {
    if (const auto why = check_whole_restore(shards, *rules, check, outcome)) {
      return wrong(std::move(outcome), *why);
    }
    return refused(std::move(outcome), rules->refusal);
  }
  if (outcome.legal_cuts.empty()) {
    return refused(std::move(outcome), fmt::format("no legal cut in {} layers of this {}",
                                                   rules->layer_count, rules->architecture));
  }
  return compare(std::move(outcome), check, *rules, shards);
}

}  // namespace salvage::conformance
