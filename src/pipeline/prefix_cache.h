#pragma once

// What the stages' KV caches hold, sequence by sequence (a *lane* each), and how a new prompt can
// start from it. The coordinator's only memory of it: stages hold tensors, this holds tokens, and
// since all of them see the same operations in the same order, both always agree. Pure; owned by
// the scheduler. Where stages may leave steps out (doubt()), they may differ beyond what is sure,
// until the next prompt on that lane cuts it back.
//
// Models whose sequences can't be cut back (recurrent, hybrid) go on only where a lane ends, or at
// a *checkpoint*: a state that every stage saved when the lane had so many tokens. This numbers
// the checkpoints, says when one is saved, and which one a new one replaces. Method and reasons:
// prefix_cache.cc and docs/decisions/0014-checkpoints.md.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "engine/stage_engine.h"

namespace salvage::pipeline {

struct PrefixCacheLimits {
  std::uint32_t lane_count = 1;
  std::uint32_t context_per_sequence = 4096;  // tokens
  bool can_trim = true;                       // lanes can be cut back anywhere
  std::uint32_t checkpoint_count = 0;         // of all lanes together; only if they can't
};

// Where a prompt starts: on which lane, and how much of it need not be computed.
struct PrefixStart {
  std::uint32_t lane = 0;
  std::uint32_t source = 0;  // whose beginning it is; another lane's is copied
  std::uint32_t keep = 0;    // tokens
  std::uint32_t shared = 0;  // tokens that prompt and source begin with alike; at least `keep`
};

// What copying a lane costs, in tokens computed: it moves all of the lane's keys and values.
// Prompts that share no more than this with another lane are computed instead.
inline constexpr std::uint32_t kCopyTokens = 64;

enum class CheckpointKind {
  kPeriodic,  // so that no place is far from one
  kTurn,      // where a conversation is known, or likely, to go on differently
};

class PrefixCache {
 public:
  explicit PrefixCache(const PrefixCacheLimits& limits);

  // The cheapest idle lane for this prompt, of which at most `keep_max` tokens may be kept; nothing
  // if no lane is idle.
  std::optional<PrefixStart> choose(const std::vector<TokenId>& prompt,
                                    std::uint32_t keep_max) const;

  // The lane is somebody's from now on, and begins as `start` says. The answer's turn begins behind
  // `turn` tokens of the prompt. `ops` gets what the stages must do before the next rows.
  void take(const PrefixStart& start, std::uint32_t turn, std::vector<engine::SequenceOp>& ops);
  void release(std::uint32_t lane);  // its tokens stay
  void append(std::uint32_t lane, TokenId token);

  // Whether another lane was begun with what this one has from `position` on.
  bool lends(std::uint32_t lane, std::uint32_t position) const;
  // Tokens that a prompt could start with on this lane if it were doubted from `sure` on.
  std::uint32_t kept_if_doubted(std::uint32_t lane, std::uint32_t sure) const;
  // Stages may leave out the lane's tokens from `sure` on: until more is known, nobody starts from
  // there, and the next prompt on this lane cuts it back.
  void doubt(std::uint32_t lane, std::uint32_t sure);
  // Tokens [begin, end) of a doubted lane, which nobody has taken since, were computed by all
  // stages, or were not.
  void settle(std::uint32_t lane, std::uint32_t begin, std::uint32_t end, bool computed);
  std::uint32_t token_count(std::uint32_t lane) const;

  // Tokens of the lane at its last checkpoint; 0 if it has none.
  std::uint32_t last_checkpoint(std::uint32_t lane) const;
  // Whether the lane has grown so much since its last checkpoint that one is due.
  bool checkpoint_due(std::uint32_t lane) const;
  // Saves the lane's state before its next row, if there is room or something less useful.
  void save(std::uint32_t lane, CheckpointKind kind, std::vector<engine::SequenceOp>& ops);

  // Nothing is known of the stages' caches any more.
  void forget_all();

  std::uint32_t checkpoints_in_use() const;
  bool uses_checkpoints() const { return limits_.checkpoint_count > 0; }

 private:
  struct Checkpoint {
    std::uint32_t position = 0;  // tokens of the lane when it was saved
    CheckpointKind kind = CheckpointKind::kPeriodic;
    CheckpointId id;
    bool proven = false;  // it was there before the lane's present prompt
  };
  struct Lane {
    std::vector<TokenId> tokens;
    std::vector<Checkpoint> checkpoints;  // by rising position, none beyond the tokens
    std::uint32_t first_turn = 0;         // tokens before the first answer of what the lane holds
    // The stages may hold something else, from `sure` on or altogether: cut it back or clear it.
    bool unknown = false;
    std::optional<std::uint32_t> sure;  // less than the tokens, while steps may be left out
    std::uint32_t lent = 0;             // tokens that other lanes were begun with
    bool in_use = false;
    std::uint64_t last_use = 0;
  };

  std::uint32_t usable(const Lane& lane, std::uint32_t shared) const;
  std::uint64_t loss(const Lane& lane, const PrefixStart& start) const;
  void copy(const PrefixStart& start, std::vector<engine::SequenceOp>& ops);
  void go_back(const PrefixStart& start, std::vector<engine::SequenceOp>& ops);
  void cut(Lane& lane, std::uint32_t keep);
  static bool survives_doubt(const Checkpoint& checkpoint, std::uint32_t sure);
  std::optional<CheckpointId> room_for(std::uint32_t lane, CheckpointKind kind);
  std::optional<std::uint32_t> lane_with_most(std::uint32_t but) const;
  std::optional<CheckpointId> evict_from(std::uint32_t lane, bool keep_last_turn);

  PrefixCacheLimits limits_;
  bool can_copy_ = false;      // lanes from each other
  std::uint32_t share_ = 0;    // checkpoints a lane may hold without asking others
  std::uint32_t spacing_ = 0;  // tokens between periodic checkpoints
  std::vector<Lane> lanes_;
  std::vector<CheckpointId> free_;
  std::uint64_t uses_ = 0;
};

}  // namespace salvage::pipeline
