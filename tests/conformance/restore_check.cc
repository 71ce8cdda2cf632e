#include "restore_check.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "stage_chain.h"

namespace salvage::conformance {
namespace {

using engine::SequenceOp;
using engine::SequenceOpKind;

// Groups of the plan after which there is a way back: half the prompt, and all of it.
struct Place {
  std::size_t groups = 0;
  std::size_t position = 0;
  std::uint32_t checkpoint = 0;
};

class RestoreCheck {
 public:
  RestoreCheck(std::span<engine::StageEngine* const> stages, const RunPlan& plan)
      : stages_(stages), plan_(plan), vocabulary_(stages.back()->facts().vocabulary_size) {
    std::size_t position = 0;
    for (std::size_t group = 0; position < kPromptTokens; ++group) {
      position += plan.groups[group];
      const bool half = places_.empty() && position * 2 >= kPromptTokens;
      if (half || position == kPromptTokens) {
        places_.push_back({group + 1, position, static_cast<std::uint32_t>(places_.size())});
      }
    }
  }

  Result<std::optional<std::string>> run() {
    RETURN_IF_ERROR(run_all());
    if (next_turn(stages_) == "checkpoint") see_refusals();
    for (const Place& place : {places_.back(), places_.front()}) {
      RETURN_IF_ERROR(go_back(place, 0));
      RETURN_IF_ERROR(run_from(place, 0, fmt::format("again from {}", place.position)));
    }
    RETURN_IF_ERROR(go_back(places_.front(), 0));
    RETURN_IF_ERROR(run_others(places_.front()));
    RETURN_IF_ERROR(see_other_history());
    RETURN_IF_ERROR(go_back(places_.front(), 0));
    RETURN_IF_ERROR(run_from(places_.front(), 0, "after other tokens"));
    RETURN_IF_ERROR(run_copy());
    return difference_;
  }

 private:
  // The whole plan, with a way back at each place.
  Result<void> run_all() {
    RETURN_IF_ERROR(clear_sequence(stages_));
    std::size_t position = 0;
    for (std::size_t group = 0; group < plan_.groups.size(); ++group) {
      RETURN_IF_ERROR(run_group(position, plan_.groups[group], 0));
      expected_.insert(expected_.end(), logits_.begin(), logits_.end());
      position += plan_.groups[group];
      for (const Place& place : places_) {
        if (place.groups == group + 1) RETURN_IF_ERROR(save(place));
      }
    }
    return {};
  }

  // What can't be right is refused, and changes nothing: the runs that follow show that.
  void see_refusals() {
    const auto position = static_cast<std::int32_t>(places_.front().position);
    const SequenceOp wrong[] = {
        {SequenceOpKind::kRestore, {0}, {}, position + 1, {0}},                // another place
        {SequenceOpKind::kRestore, {0}, {}, position, {kRestoreCheckpoints}},  // no such number
        {SequenceOpKind::kSave, {0}, {}, position, {0}},  // the sequence ends elsewhere
        {SequenceOpKind::kSave, {1}, {}, 0, {0}},         // nothing is there
        {SequenceOpKind::kTrim, {0}, {}, position, {}}};  // what a checkpoint is for
    for (const SequenceOp& op : wrong) {
      if (apply(op)) difference_ = "an operation that can't be right was not refused";
    }
  }

  // Behind other tokens the same rows must give other bits, else nothing here can fail.
  Result<void> see_other_history() {
    RETURN_IF_ERROR(run_group(kPromptTokens, 1, 0));
    const float* same = expected_.data() + kPromptTokens * vocabulary_;
    if (std::memcmp(same, logits_.data(), logits_.size() * sizeof(float)) == 0) {
      difference_ = "other tokens before a row don't change it: this check sees nothing";
    }
    return {};
  }

  // Both lanes go on from the first place at once: neither may see the other's tokens.
  Result<void> run_copy() {
    const Place& place = places_.front();
    RETURN_IF_ERROR(apply({.kind = SequenceOpKind::kCopy, .sequence = {1}, .source = {0}}));
    RETURN_IF_ERROR(go_back(place, 1));
    RETURN_IF_ERROR(go_back(place, 0));
    RETURN_IF_ERROR(run_others(place));
    RETURN_IF_ERROR(run_from(place, 1, "in a copy"));
    RETURN_IF_ERROR(go_back(place, 0));
    RETURN_IF_ERROR(run_from(place, 0, "beside a copy"));
    return apply({.kind = SequenceOpKind::kClear, .sequence = {1}, .source = {}});
  }

  Result<void> run_group(std::size_t begin, std::size_t count, std::uint32_t sequence) {
    Rows rows;
    for (std::size_t i = begin; i < begin + count; ++i) {
      rows.tokens.push_back(plan_.tokens[i]);
      rows.positions.push_back(static_cast<std::int32_t>(i));
      rows.sequences.push_back({sequence});
    }
    ASSIGN_OR_RETURN(logits_, run_rows(stages_, rows));
    return {};
  }

  Result<void> run_from(const Place& place, std::uint32_t sequence, const std::string& how) {
    std::size_t position = place.position;
    for (std::size_t group = place.groups; group < plan_.groups.size(); ++group) {
      RETURN_IF_ERROR(run_group(position, plan_.groups[group], sequence));
      const float* wanted = expected_.data() + position * vocabulary_;
      if (!difference_ &&
          std::memcmp(wanted, logits_.data(), logits_.size() * sizeof(float)) != 0) {
        difference_ = fmt::format("{}: other bits at {}", how, position);
      }
      position += plan_.groups[group];
    }
    return {};
  }

  // Tokens that are not the plan's.
  Result<void> run_others(const Place& place) {
    Rows rows;
    for (std::size_t i = place.position; i < kPromptTokens; ++i) {
      rows.tokens.push_back(plan_.tokens[kPromptTokens - i]);
      rows.positions.push_back(static_cast<std::int32_t>(i));
      rows.sequences.push_back({0});
    }
    ASSIGN_OR_RETURN(logits_, run_rows(stages_, rows));
    return {};
  }

  Result<void> save(const Place& place) {
    if (next_turn(stages_) != "checkpoint") return {};
    return apply({.kind = SequenceOpKind::kSave,
                  .sequence = {0},
                  .source = {},
                  .position = static_cast<std::int32_t>(place.position),
                  .checkpoint = {place.checkpoint}});
  }

  Result<void> go_back(const Place& place, std::uint32_t sequence) {
    const bool saved = next_turn(stages_) == "checkpoint";
    return apply({.kind = saved ? SequenceOpKind::kRestore : SequenceOpKind::kTrim,
                  .sequence = {sequence},
                  .source = {},
                  .position = static_cast<std::int32_t>(place.position),
                  .checkpoint = {saved ? place.checkpoint : 0}});
  }

  Result<void> apply(const SequenceOp& op) {
    for (engine::StageEngine* stage : stages_) RETURN_IF_ERROR(stage->apply({&op, 1}));
    return {};
  }

  std::span<engine::StageEngine* const> stages_;
  const RunPlan& plan_;
  std::size_t vocabulary_;
  std::vector<Place> places_;
  std::vector<float> expected_;  // of every position
  std::vector<float> logits_;    // of the last rows
  std::optional<std::string> difference_;
};

}  // namespace

std::string next_turn(std::span<engine::StageEngine* const> stages) {
  const auto all = [&](auto can) { return std::all_of(stages.begin(), stages.end(), can); };
  if (all([](const auto* stage) { return stage->facts().memory.kv_cache_bytes == 0; })) {
    return "no cache";  // a diffusion model: every micro-batch is a whole text
  }
  if (all([](const engine::StageEngine* stage) { return stage->facts().can_trim; })) {
    return "cut back";
  }
  return all([](const engine::StageEngine* stage) {
    return stage->facts().checkpoint_count >= kRestoreCheckpoints;
  })
             ? "checkpoint"
             : "anew";
}

std::optional<std::string> check_restore(std::span<engine::StageEngine* const> stages,
                                         const RunPlan& plan) {
  const std::string how = next_turn(stages);
  if (how != "cut back" && how != "checkpoint") return std::nullopt;
  auto difference = RestoreCheck(stages, plan).run();
  return difference ? *difference : std::optional(difference.error().message());
}

}  // namespace salvage::conformance
