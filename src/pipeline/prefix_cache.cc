// A prompt costs what of it must be computed, and what the lane that it takes will miss later: the
// tokens that are thrown away there were computed once and may be wanted again. Both are counted in
// tokens, so that one comparison decides among
//   - the lane of the same conversation, whose tail was only the last answer in another spelling,
//   - an empty lane, for a short prompt that shares no more than its first words with anybody,
//   - a lane unused for long, rather than a long conversation that was just answered,
//   - a copy of another lane's beginning in one of those, for prompts that share instructions.
// Thrown away tokens count an eighth when their lane was used last, and less with every use of
// others since: so often does a conversation go on after another prompt came between. They count
// nothing if the prompt goes on behind the lane's first question: then it is the same conversation,
// written anew (an answer without its thoughts, another answer, a message that was edited).
//
// Checkpoints. A conversation goes on differently from its lane where a template writes an answer
// in another way than the model did: before the answer's turn, which the scheduler knows; or where
// prompts were seen to part, which choose() finds. Those are saved as kTurn. All else is guarded by
// periodic ones: one every `spacing_` tokens, which follows from how many there is room for.
// When there is no room, a lane with more than its share gives one up: the one whose loss costs
// least, tokens back to the one before, weighed by how far from the end it stands: prompts part
// near the end far more often than near the beginning. So they thin out towards the beginning, and
// near the end they stay dense. The last kTurn of a lane never goes for a periodic one of the same.

#include "pipeline/prefix_cache.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace salvage::pipeline {
namespace {

constexpr std::uint64_t kLossShare = 8;
// The least distance of periodic checkpoints: so few tokens are read again in some chunks.
constexpr std::uint32_t kSpacingMin = 256;

std::uint32_t common_prefix(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::uint32_t>(end.first - a.begin());
}

}  // namespace

PrefixCache::PrefixCache(const PrefixCacheLimits& limits)
    : limits_(limits), lanes_(limits.lane_count) {
  CHECK(limits.lane_count > 0);
  if (limits_.can_trim) limits_.checkpoint_count = 0;
  // Where a state can't be saved and restored, nobody has seen one copied either.
  can_copy_ = limits_.can_trim || uses_checkpoints();
  if (!uses_checkpoints()) return;
  share_ = std::max(1U, limits_.checkpoint_count / limits_.lane_count);
  spacing_ = std::max(kSpacingMin, limits_.context_per_sequence / share_);
  for (std::uint32_t i = limits_.checkpoint_count; i-- > 0;) free_.push_back({i});
}

std::uint32_t PrefixCache::token_count(std::uint32_t lane) const {
  return static_cast<std::uint32_t>(lanes_[lane].tokens.size());
}

// How many of `shared` tokens of a lane a sequence can start with.
std::uint32_t PrefixCache::usable(const Lane& lane, std::uint32_t shared) const {
  if (limits_.can_trim) return std::min(shared, lane.sure.value_or(shared));
  if (shared == lane.tokens.size() && !lane.unknown) return shared;
  std::uint32_t best = 0;
  for (const Checkpoint& checkpoint : lane.checkpoints) {
    if (checkpoint.position <= shared) best = checkpoint.position;
  }
  return best;
}

// What the lane's tokens that `start` throws away are worth.
std::uint64_t PrefixCache::loss(const Lane& lane, const PrefixStart& start) const {
  const bool in_place = start.lane == start.source;
  if (in_place && lane.first_turn > 0 && start.shared >= lane.first_turn) return 0;
  const std::uint64_t age = uses_ - lane.last_use;
  return (lane.tokens.size() - (in_place ? start.keep : 0)) / (kLossShare * (1 + age));
}

std::optional<PrefixStart> PrefixCache::choose(const std::vector<TokenId>& prompt,
                                               std::uint32_t keep_max) const {
  if (std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.in_use; })) {
    return std::nullopt;
  }
  std::vector<PrefixStart> starts;  // on each lane, whoever has it, with its own beginning
  PrefixStart longest;
  for (std::uint32_t index = 0; index < lanes_.size(); ++index) {
    PrefixStart start{.lane = index, .source = index};
    start.shared = std::min(common_prefix(lanes_[index].tokens, prompt), keep_max);
    start.keep = usable(lanes_[index], start.shared);
    if (start.keep > longest.keep) longest = start;
    starts.push_back(start);
  }
  std::optional<PrefixStart> best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  const auto consider = [&](const PrefixStart& start, std::uint64_t cost) {
    const bool older = best && lanes_[start.lane].last_use < lanes_[best->lane].last_use;
    if (best && (cost > least || (cost == least && !older))) return;
    best = start;
    least = cost;
  };
  for (const PrefixStart& start : starts) {
    const Lane& lane = lanes_[start.lane];
    if (lane.in_use) continue;
    consider(start, prompt.size() - start.keep + loss(lane, start));
    if (longest.keep <= start.keep || !can_copy_) continue;
    PrefixStart copied = longest;
    copied.lane = start.lane;
    consider(copied, prompt.size() - copied.keep + kCopyTokens + loss(lane, copied));
  }
  return best;
}

void PrefixCache::take(const PrefixStart& start, std::uint32_t turn,
                       std::vector<engine::SequenceOp>& ops) {
  Lane& lane = lanes_[start.lane];
  CHECK(!lane.in_use);
  if (start.source != start.lane) {
    copy(start, ops);
  } else if (start.keep > 0) {
    go_back(start, ops);
  } else if (!lane.tokens.empty() || lane.unknown) {
    ops.push_back({.kind = engine::SequenceOpKind::kClear, .sequence = {start.lane}, .source = {}});
  }
  cut(lane, start.keep);
  if (start.shared < lane.first_turn || lane.first_turn == 0) lane.first_turn = turn;
  lane.unknown = false;
  lane.sure.reset();
  lane.lent = 0;
  for (Checkpoint& checkpoint : lane.checkpoints) checkpoint.proven = true;
  lane.in_use = true;
  lane.last_use = ++uses_;
}

void PrefixCache::copy(const PrefixStart& start, std::vector<engine::SequenceOp>& ops) {
  Lane& lane = lanes_[start.lane];
  Lane& source = lanes_[start.source];
  source.lent = std::max(source.lent, start.keep);
  ops.push_back(
      {.kind = engine::SequenceOpKind::kCopy, .sequence = {start.lane}, .source = {start.source}});
  go_back(start, ops);
  cut(lane, 0);
  lane.tokens.assign(source.tokens.begin(), source.tokens.begin() + start.keep);
  lane.first_turn = source.first_turn;
}

// The stages' sequence of start.lane holds the source's tokens: back to the first start.keep.
void PrefixCache::go_back(const PrefixStart& start, std::vector<engine::SequenceOp>& ops) {
  const Lane& source = lanes_[start.source];
  if (start.keep == source.tokens.size() && !source.unknown) return;
  engine::SequenceOp op{.kind = engine::SequenceOpKind::kTrim,
                        .sequence = {start.lane},
                        .source = {},
                        .position = static_cast<std::int32_t>(start.keep)};
  if (!limits_.can_trim) {
    const auto saved = std::find_if(
        source.checkpoints.begin(), source.checkpoints.end(),
        [&](const Checkpoint& checkpoint) { return checkpoint.position == start.keep; });
    CHECK(saved != source.checkpoints.end());
    op.kind = engine::SequenceOpKind::kRestore;
    op.checkpoint = saved->id;
  }
  ops.push_back(op);
}

void PrefixCache::cut(Lane& lane, std::uint32_t keep) {
  lane.tokens.resize(keep);
  while (!lane.checkpoints.empty() && lane.checkpoints.back().position > keep) {
    free_.push_back(lane.checkpoints.back().id);
    lane.checkpoints.pop_back();
  }
}

void PrefixCache::release(std::uint32_t lane) {
  lanes_[lane].in_use = false;
  lanes_[lane].last_use = ++uses_;
}

void PrefixCache::append(std::uint32_t lane, TokenId token) {
  lanes_[lane].tokens.push_back(token);
}

// A checkpoint at `position` is saved by the step that goes on from there.
bool PrefixCache::lends(std::uint32_t lane, std::uint32_t position) const {
  const std::uint32_t lent = lanes_[lane].lent;
  return position < lent || (!limits_.can_trim && position == lent && lent > 0);
}

void PrefixCache::doubt(std::uint32_t index, std::uint32_t sure) {
  Lane& lane = lanes_[index];
  lane.unknown = true;
  lane.sure = sure;
  while (!lane.checkpoints.empty() && !survives_doubt(lane.checkpoints.back(), sure)) {
    free_.push_back(lane.checkpoints.back().id);
    lane.checkpoints.pop_back();
  }
}

// Those from `sure` on are saved by steps that may be left out, and the saving with them; but where
// the lane's prompt began one may have been before.
bool PrefixCache::survives_doubt(const Checkpoint& checkpoint, std::uint32_t sure) {
  return checkpoint.position < sure || (checkpoint.position == sure && checkpoint.proven);
}

std::uint32_t PrefixCache::kept_if_doubted(std::uint32_t index, std::uint32_t sure) const {
  if (limits_.can_trim) return sure;
  std::uint32_t kept = 0;
  for (const Checkpoint& checkpoint : lanes_[index].checkpoints) {
    if (survives_doubt(checkpoint, sure)) kept = checkpoint.position;
  }
  return kept;
}

void PrefixCache::settle(std::uint32_t index, std::uint32_t begin, std::uint32_t end,
                         bool computed) {
  Lane& lane = lanes_[index];
  if (!lane.sure || *lane.sure != begin) return;  // behind one that was left out
  if (!computed) {
    cut(lane, begin);
  } else {
    lane.sure = end;
  }
  if (*lane.sure < lane.tokens.size()) return;
  lane.sure.reset();
  lane.unknown = !computed;
}

std::uint32_t PrefixCache::last_checkpoint(std::uint32_t lane) const {
  const std::vector<Checkpoint>& checkpoints = lanes_[lane].checkpoints;
  return checkpoints.empty() ? 0 : checkpoints.back().position;
}

bool PrefixCache::checkpoint_due(std::uint32_t lane) const {
  return uses_checkpoints() && token_count(lane) - last_checkpoint(lane) >= spacing_;
}

void PrefixCache::save(std::uint32_t index, CheckpointKind kind,
                       std::vector<engine::SequenceOp>& ops) {
  Lane& lane = lanes_[index];
  const std::uint32_t position = token_count(index);
  if (!uses_checkpoints() || position == 0) return;
  if (!lane.checkpoints.empty() && lane.checkpoints.back().position == position) {
    if (kind == CheckpointKind::kTurn) lane.checkpoints.back().kind = kind;
    return;
  }
  const auto id = room_for(index, kind);
  if (!id) return;
  lane.checkpoints.push_back({position, kind, *id});
  ops.push_back({.kind = engine::SequenceOpKind::kSave,
                 .sequence = {index},
                 .source = {},
                 .position = static_cast<std::int32_t>(position),
                 .checkpoint = *id});
}

std::optional<CheckpointId> PrefixCache::room_for(std::uint32_t lane, CheckpointKind kind) {
  if (!free_.empty()) {
    const CheckpointId id = free_.back();
    free_.pop_back();
    return id;
  }
  if (lanes_[lane].checkpoints.size() >= share_) {
    return evict_from(lane, kind == CheckpointKind::kPeriodic);
  }
  const auto other = lane_with_most(lane);
  return other ? evict_from(*other, false) : std::nullopt;
}

// Among equals the one unused for longest.
std::optional<std::uint32_t> PrefixCache::lane_with_most(std::uint32_t but) const {
  std::optional<std::uint32_t> most;
  for (std::uint32_t index = 0; index < lanes_.size(); ++index) {
    if (index == but || lanes_[index].checkpoints.empty()) continue;
    const Lane& lane = lanes_[index];
    const std::size_t count = most ? lanes_[*most].checkpoints.size() : 0;
    const bool older = most && lane.last_use < lanes_[*most].last_use;
    if (lane.checkpoints.size() > count || (lane.checkpoints.size() == count && older)) {
      most = index;
    }
  }
  return most;
}

std::optional<CheckpointId> PrefixCache::evict_from(std::uint32_t index, bool keep_last_turn) {
  Lane& lane = lanes_[index];
  const auto last_turn =
      std::find_if(lane.checkpoints.rbegin(), lane.checkpoints.rend(),
                   [](const Checkpoint& one) { return one.kind == CheckpointKind::kTurn; });
  std::optional<std::size_t> victim;
  std::uint64_t least_gap = 0;
  std::uint64_t least_distance = 1;
  for (std::size_t i = 0; i < lane.checkpoints.size(); ++i) {
    const Checkpoint& one = lane.checkpoints[i];
    const bool protects = last_turn != lane.checkpoints.rend() && &one == &*last_turn;
    if (protects && (keep_last_turn || lane.checkpoints.size() > 1)) continue;
    const std::uint64_t gap = one.position - (i > 0 ? lane.checkpoints[i - 1].position : 0);
    const std::uint64_t distance = lane.tokens.size() - one.position + 1;
    // gap / distance < least_gap / least_distance
    if (victim && gap * least_distance >= least_gap * distance) continue;
    victim = i;
    least_gap = gap;
    least_distance = distance;
  }
  if (!victim) return std::nullopt;
  const CheckpointId id = lane.checkpoints[*victim].id;
  lane.checkpoints.erase(lane.checkpoints.begin() + static_cast<std::ptrdiff_t>(*victim));
  return id;
}

void PrefixCache::forget_all() {
  for (Lane& lane : lanes_) {
    cut(lane, 0);
    lane.unknown = true;
    lane.sure.reset();
    lane.lent = 0;
  }
}

std::uint32_t PrefixCache::checkpoints_in_use() const {
  return limits_.checkpoint_count - static_cast<std::uint32_t>(free_.size());
}

}  // namespace salvage::pipeline
