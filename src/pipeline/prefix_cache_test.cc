// Goal: a prompt gets the lane that costs least, now and later; checkpoints stay within their
// number, are where they are needed, and are never of anything but what the lane holds.
// Method: lanes are filled through the interface that the scheduler uses; the scheduler's own tests
// prove that what the stages are told fits.

#include "pipeline/prefix_cache.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace salvage::pipeline {
namespace {

using engine::SequenceOp;
using engine::SequenceOpKind;

std::vector<TokenId> text(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A cache whose prompts are read at once.
class Lanes {
 public:
  explicit Lanes(const PrefixCacheLimits& limits) : cache(limits) {}

  PrefixStart take(const std::vector<TokenId>& prompt, std::uint32_t turn = 0) {
    const auto start = cache.choose(prompt, static_cast<std::uint32_t>(prompt.size()) - 1);
    EXPECT_TRUE(start.has_value());
    ops.clear();
    cache.take(*start, turn, ops);
    for (std::size_t i = start->keep; i < prompt.size(); ++i) cache.append(start->lane, prompt[i]);
    return *start;
  }
  // Takes a lane and lets go of it again.
  PrefixStart read(const std::vector<TokenId>& prompt, std::uint32_t turn = 0) {
    const PrefixStart start = take(prompt, turn);
    cache.release(start.lane);
    return start;
  }

  PrefixCache cache;
  std::vector<SequenceOp> ops;  // of the last take
};

TEST(PrefixCache, the_lane_of_the_same_conversation_goes_on) {
  Lanes lanes({.lane_count = 4});
  const PrefixStart first = lanes.read(text(0, 500), 495);
  lanes.read(text(5000, 500), 495);
  const PrefixStart again = lanes.read(joined(text(0, 500), text(9000, 50)), 545);
  EXPECT_EQ(again.lane, first.lane);
  EXPECT_EQ(again.keep, 500U);
}

TEST(PrefixCache, a_short_prompt_takes_an_empty_lane_not_a_conversation_s) {
  Lanes lanes({.lane_count = 3});
  const PrefixStart conversation = lanes.read(text(0, 2000), 1995);
  // A request for a title: it begins with the same few words, as all prompts of a template do.
  const PrefixStart title = lanes.read(joined(text(0, 24), text(7000, 10)), 30);
  EXPECT_NE(title.lane, conversation.lane);
  EXPECT_EQ(lanes.read(joined(text(0, 2000), text(9000, 20)), 2015).keep, 2000U);
}

TEST(PrefixCache, without_an_empty_lane_short_ones_and_old_ones_go_first) {
  Lanes lanes({.lane_count = 3});
  const PrefixStart old_one = lanes.read(text(0, 3000), 2995);
  const PrefixStart short_one = lanes.read(text(10000, 40), 35);
  const PrefixStart recent = lanes.read(text(20000, 3000), 2995);
  EXPECT_EQ(lanes.read(text(30000, 40), 35).lane, short_one.lane);
  // Nobody has come back to the old one for long.
  for (std::size_t i = 1; i < 300; ++i) {
    EXPECT_EQ(lanes.read(text(20000, 3000 + i), 2995).lane, recent.lane);
  }
  EXPECT_EQ(lanes.read(text(40000, 60), 55).lane, old_one.lane);
}

TEST(PrefixCache, lanes_that_are_in_use_are_nobody_s_to_take) {
  Lanes lanes({.lane_count = 2});
  const PrefixStart a = lanes.take(text(0, 100));
  const PrefixStart b = lanes.take(text(500, 100));
  EXPECT_NE(a.lane, b.lane);
  EXPECT_FALSE(lanes.cache.choose(text(0, 200), 199).has_value());
  lanes.cache.release(b.lane);
  EXPECT_EQ(lanes.cache.choose(text(700, 200), 199)->lane, b.lane);
}

TEST(PrefixCache, a_conversation_whose_thoughts_were_left_out_keeps_its_lane) {
  Lanes lanes({.lane_count = 4});
  // A prompt of 1,000 tokens and 3,000 of thoughts, of which the next prompt holds nothing.
  const PrefixStart first = lanes.take(text(0, 1000), 995);
  for (TokenId i = 0; i < 3000; ++i) lanes.cache.append(first.lane, 50000 + i);
  lanes.cache.release(first.lane);
  const PrefixStart next = lanes.read(joined(text(0, 995), text(9000, 60)), 1050);
  EXPECT_EQ(next.lane, first.lane);
  EXPECT_EQ(next.keep, 995U);
  ASSERT_EQ(lanes.ops.size(), 1U);
  EXPECT_EQ(lanes.ops[0].kind, SequenceOpKind::kTrim);
  EXPECT_EQ(lanes.ops[0].position, 995);
}

TEST(PrefixCache, instructions_that_conversations_share_are_copied_to_an_empty_lane) {
  Lanes lanes({.lane_count = 3});
  const PrefixStart first = lanes.read(joined(text(0, 1000), text(5000, 2000)), 1100);
  const PrefixStart other = lanes.read(joined(text(0, 1000), text(8000, 90)), 1085);
  EXPECT_NE(other.lane, first.lane);
  EXPECT_EQ(other.keep, 1000U);
  ASSERT_EQ(lanes.ops.size(), 2U);
  EXPECT_EQ(lanes.ops[0].kind, SequenceOpKind::kCopy);
  EXPECT_EQ(lanes.ops[0].source.value, first.lane);
  EXPECT_EQ(lanes.ops[1].kind, SequenceOpKind::kTrim);
  // Both are there afterwards.
  EXPECT_EQ(lanes.read(joined(joined(text(0, 1000), text(5000, 2000)), {1}), 2990).keep, 3000U);
  EXPECT_EQ(lanes.read(joined(joined(text(0, 1000), text(8000, 90)), {1}), 1090).keep, 1090U);
}

TEST(PrefixCache, what_cannot_be_saved_is_not_copied_either) {
  Lanes lanes({.lane_count = 2, .can_trim = false});
  lanes.take(text(0, 1000));
  EXPECT_EQ(lanes.read(text(0, 1200)).keep, 0U);
}

TEST(PrefixCache, after_a_loss_every_lane_is_cleared_before_it_is_used) {
  Lanes lanes({.lane_count = 1});
  lanes.read(text(0, 100));
  EXPECT_TRUE(lanes.ops.empty()) << "nothing was there";
  lanes.cache.forget_all();
  EXPECT_EQ(lanes.read(text(0, 100)).keep, 0U);
  ASSERT_EQ(lanes.ops.size(), 1U);
  EXPECT_EQ(lanes.ops[0].kind, SequenceOpKind::kClear);
}

PrefixCacheLimits recurrent(std::uint32_t lanes, std::uint32_t checkpoints) {
  return {.lane_count = lanes, .can_trim = false, .checkpoint_count = checkpoints};
}

TEST(PrefixCacheCheckpoints, a_new_prompt_goes_back_to_the_last_one_before_it_parts) {
  Lanes lanes(recurrent(1, 4));
  const PrefixStart first = lanes.take(text(0, 300));
  std::vector<SequenceOp> saved;
  lanes.cache.save(first.lane, CheckpointKind::kTurn, saved);
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved[0].position, 300);
  for (TokenId i = 0; i < 50; ++i) lanes.cache.append(first.lane, 9000 + i);
  lanes.cache.release(first.lane);
  const PrefixStart next = lanes.read(joined(text(0, 310), text(7000, 5)));
  EXPECT_EQ(next.keep, 300U);
  EXPECT_EQ(next.shared, 300U);
  ASSERT_EQ(lanes.ops.size(), 1U);
  EXPECT_EQ(lanes.ops[0].kind, SequenceOpKind::kRestore);
  EXPECT_EQ(lanes.ops[0].position, 300);
  EXPECT_EQ(lanes.ops[0].checkpoint, saved[0].checkpoint);
  // One that parts earlier starts anew, and the checkpoint is gone with what it was of.
  EXPECT_EQ(lanes.read(joined(text(0, 200), text(7000, 5))).keep, 0U);
  EXPECT_EQ(lanes.cache.checkpoints_in_use(), 0U);
}

TEST(PrefixCacheCheckpoints, are_never_more_than_there_is_room_for_whatever_happens) {
  std::mt19937 random(5);
  const auto up_to = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  };
  for (int round = 0; round < 50; ++round) {
    const std::uint32_t count = 1 + up_to(9);
    const std::uint32_t lane_count = 1 + up_to(5);
    Lanes lanes(recurrent(lane_count, count));
    std::set<std::uint32_t> busy;
    for (int event = 0; event < 400; ++event) {
      const std::uint32_t kind = up_to(10);
      std::vector<SequenceOp> ops;
      if (kind < 3 && busy.size() < lane_count) {
        busy.insert(lanes.take(joined(text(0, up_to(800)), text(9000, 1 + up_to(400)))).lane);
      } else if (kind < 9 && !busy.empty()) {
        const std::uint32_t lane =
            *std::next(busy.begin(), up_to(static_cast<std::uint32_t>(busy.size())));
        lanes.cache.append(lane, 77);
        lanes.cache.save(lane, up_to(2) == 0 ? CheckpointKind::kTurn : CheckpointKind::kPeriodic,
                         ops);
        if (up_to(4) == 0) {
          lanes.cache.release(lane);
          busy.erase(lane);
        }
      } else if (kind == 9 && up_to(20) == 0) {
        for (const std::uint32_t lane : busy) lanes.cache.release(lane);
        busy.clear();
        lanes.cache.forget_all();
        EXPECT_EQ(lanes.cache.checkpoints_in_use(), 0U);
      }
      for (const SequenceOp& op : ops) EXPECT_LT(op.checkpoint.value, count);
      ASSERT_LE(lanes.cache.checkpoints_in_use(), count);
    }
  }
}

TEST(PrefixCacheCheckpoints, a_lane_gives_up_what_it_has_beyond_its_share) {
  Lanes lanes(recurrent(2, 4));
  std::vector<SequenceOp> ops;
  const PrefixStart first = lanes.take(text(0, 100));
  for (TokenId i = 0; i < 4; ++i) {
    lanes.cache.save(first.lane, CheckpointKind::kTurn, ops);
    for (TokenId j = 0; j < 100; ++j) lanes.cache.append(first.lane, j);
  }
  EXPECT_EQ(lanes.cache.checkpoints_in_use(), 4U);
  const PrefixStart second = lanes.take(text(5000, 100));
  for (TokenId i = 0; i < 3; ++i) {
    ops.clear();
    lanes.cache.save(second.lane, CheckpointKind::kTurn, ops);
    EXPECT_EQ(ops.size(), 1U);
    for (TokenId j = 0; j < 100; ++j) lanes.cache.append(second.lane, j);
  }
  EXPECT_EQ(lanes.cache.checkpoints_in_use(), 4U);
  // The other keeps its share, its last turn among them.
  lanes.cache.release(first.lane);
  EXPECT_EQ(lanes.cache.last_checkpoint(first.lane), 400U);
}

TEST(PrefixCacheCheckpoints, thin_out_towards_the_beginning) {
  Lanes lanes(recurrent(1, 6));
  std::vector<SequenceOp> ops;
  const PrefixStart start = lanes.take(text(0, 1));
  std::vector<std::int32_t> held(6, 0);
  for (TokenId i = 1; i < 6400; ++i) {
    lanes.cache.append(start.lane, i);
    if (i % 100 == 0) lanes.cache.save(start.lane, CheckpointKind::kPeriodic, ops);
  }
  for (const SequenceOp& op : ops) held[op.checkpoint.value] = op.position;
  std::sort(held.begin(), held.end());
  EXPECT_GE(held.back(), 6200);
  EXPECT_GE(held[4], 5800) << "dense near the end";
  EXPECT_LE(held.front(), 4000) << "some far from it";
}

TEST(PrefixCacheCheckpoints, the_last_turn_outlives_a_long_answer) {
  for (const std::uint32_t count : {1U, 2U, 3U}) {
    Lanes lanes(recurrent(1, count));
    std::vector<SequenceOp> ops;
    const PrefixStart start = lanes.take(text(0, 1000), 995);
    lanes.cache.save(start.lane, CheckpointKind::kTurn, ops);
    for (TokenId i = 0; i < 3000; ++i) {
      lanes.cache.append(start.lane, 9000 + i);
      if (lanes.cache.checkpoint_due(start.lane)) {
        lanes.cache.save(start.lane, CheckpointKind::kPeriodic, ops);
      }
    }
    lanes.cache.release(start.lane);
    EXPECT_EQ(lanes.read(joined(text(0, 1000), text(7000, 30)), 1025).keep, 1000U) << count;
  }
}

TEST(PrefixCacheCheckpoints, fewer_than_lanes_go_to_who_came_last) {
  Lanes lanes(recurrent(4, 2));
  std::vector<SequenceOp> ops;
  std::vector<PrefixStart> starts;
  for (TokenId i = 0; i < 4; ++i) {
    starts.push_back(lanes.take(text(i * 5000, 300), 300));
    lanes.cache.save(starts.back().lane, CheckpointKind::kTurn, ops);
    lanes.cache.append(starts.back().lane, 1);
    lanes.cache.release(starts.back().lane);
  }
  EXPECT_EQ(ops.size(), 4U);
  EXPECT_EQ(lanes.read(joined(text(3 * 5000, 300), {2, 2, 2}), 302).keep, 300U);
  EXPECT_EQ(lanes.read(joined(text(0, 300), {2, 2, 2}), 302).keep, 0U);
}

}  // namespace
}  // namespace salvage::pipeline
