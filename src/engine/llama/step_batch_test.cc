// Goal: no micro-batch that libllama would assert on, or silently misread, gets through, and rows
// are laid out so that they come back in the caller's order. Method: hand-made batches against
// small limits; no model, no libllama state.
#include "engine/llama/step_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Owns what a MicroBatchView borrows.
struct Batch {
  std::vector<TokenId> tokens;
  std::vector<float> hidden;
  std::vector<std::int32_t> positions;
  std::vector<SequenceId> sequences;
  std::vector<std::uint8_t> wants_logits;
  MicroBatchView view() const {
    return {.tokens = tokens,
            .hidden = hidden,
            .positions = positions,
            .sequences = sequences,
            .wants_logits = wants_logits};
  }
};

BatchLimits token_limits() {
  return {.rows_max = 4,
          .logit_rows_max = 2,
          .sequence_count_max = 8,
          .context_per_sequence = 100,
          .vocabulary_size = 10,
          .position_planes = 1,
          .row_width_in = 0,
          .gives_logits = true};
}

Batch chunk_of_three() {
  return {.tokens = {1, 2, 3},
          .hidden = {},
          .positions = {7, 8, 9},
          .sequences = {{5}, {5}, {5}},
          .wants_logits = {0, 0, 1}};
}

std::string refusal(const Batch& batch, const BatchLimits& limits = token_limits()) {
  const auto result = StepBatch(limits).check(batch.view());
  return result ? "" : result.error().message();
}

TEST(StepBatchTest, a_chunk_and_a_group_pass) {
  EXPECT_EQ(refusal(chunk_of_three()), "");
  EXPECT_EQ(refusal({.tokens = {1, 2},
                     .hidden = {},
                     .positions = {0, 99},
                     .sequences = {{7}, {0}},
                     .wants_logits = {1, 1}}),
            "");
}

TEST(StepBatchTest, sizes_that_do_not_match_are_refused) {
  EXPECT_THAT(refusal({}), HasSubstr("without rows"));
  Batch batch = chunk_of_three();
  batch.positions.pop_back();
  EXPECT_THAT(refusal(batch), HasSubstr("2 positions"));
  batch = chunk_of_three();
  batch.sequences.pop_back();
  EXPECT_THAT(refusal(batch), HasSubstr("2 sequences"));
  batch = chunk_of_three();
  batch.hidden = {1, 2, 3};
  EXPECT_THAT(refusal(batch), HasSubstr("3 floats"));
  BatchLimits limits = token_limits();
  limits.rows_max = 2;
  EXPECT_THAT(refusal(chunk_of_three(), limits), HasSubstr("at most 2"));
}

TEST(StepBatchTest, ids_positions_and_sequences_out_of_range_are_refused) {
  for (const TokenId bad : {-1, 10, 2147483647}) {
    Batch batch = chunk_of_three();
    batch.tokens[1] = bad;
    EXPECT_THAT(refusal(batch), HasSubstr("row 1: token id")) << bad;
  }
  for (const std::int32_t bad : {-1, 100, 2147483647}) {
    Batch batch = chunk_of_three();
    batch.positions[2] = bad;
    EXPECT_THAT(refusal(batch), HasSubstr("row 2: position")) << bad;
  }
  Batch batch = chunk_of_three();
  batch.sequences[0] = {8};
  EXPECT_THAT(refusal(batch), HasSubstr("row 0: sequence 8"));
}

TEST(StepBatchTest, gaps_in_a_chunk_are_refused) {
  Batch batch = chunk_of_three();
  batch.positions[2] = 10;
  EXPECT_THAT(refusal(batch), HasSubstr("position 10 follows 8"));
}

TEST(StepBatchTest, image_rows_may_share_a_position_under_m_rope_but_not_go_back) {
  BatchLimits limits = token_limits();
  limits.position_planes = 4;
  Batch batch = chunk_of_three();
  batch.positions = {7, 7, 7, 0, 1, 2, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(refusal(batch, limits), "");
  batch.positions[2] = 6;
  EXPECT_THAT(refusal(batch, limits), HasSubstr("position 6 follows 7"));
}

TEST(StepBatchTest, two_rows_of_one_sequence_in_a_group_are_refused) {
  EXPECT_THAT(refusal({.tokens = {1, 2, 3},
                       .hidden = {},
                       .positions = {0, 0, 1},
                       .sequences = {{1}, {2}, {1}},
                       .wants_logits = {0, 0, 0}}),
              HasSubstr("sequence 1 has several rows"));
}

TEST(StepBatchTest, too_many_logit_rows_are_refused_where_logits_are_made) {
  Batch batch = chunk_of_three();
  batch.wants_logits = {1, 1, 1};
  EXPECT_THAT(refusal(batch), HasSubstr("3 rows want logits"));
  BatchLimits limits = token_limits();
  limits.gives_logits = false;
  EXPECT_EQ(refusal(batch, limits), "");
}

TEST(StepBatchTest, a_group_in_order_is_laid_out_as_it_came) {
  const Batch batch{.tokens = {1, 2},
                    .hidden = {},
                    .positions = {3, 4},
                    .sequences = {{2}, {6}},
                    .wants_logits = {0, 1}};
  StepBatch step(token_limits());
  const llama_batch laid_out = step.lay_out(batch.view(), RowInput::kTokens, {});
  EXPECT_THAT(step.places(), IsEmpty());
  EXPECT_EQ(laid_out.n_tokens, 2);
  EXPECT_EQ(laid_out.embd, nullptr);
  EXPECT_THAT(std::vector(laid_out.token, laid_out.token + 2), ElementsAre(1, 2));
  EXPECT_THAT(std::vector(laid_out.logits, laid_out.logits + 2), ElementsAre(0, 1));
  EXPECT_EQ(step.logit_row_count(), 1U);
}

TEST(StepBatchTest, a_group_out_of_order_is_sorted_with_everything_that_belongs_to_its_rows) {
  BatchLimits limits = token_limits();
  limits.position_planes = 4;
  limits.row_width_in = 2;
  limits.gives_logits = false;
  const Batch batch{.tokens = {1, 2, 3},
                    .hidden = {10, 11, 20, 21, 30, 31},
                    .positions = {1, 2, 3, 11, 12, 13, 21, 22, 23, 0, 0, 0},
                    .sequences = {{6}, {2}, {4}},
                    .wants_logits = {0, 0, 0}};
  StepBatch step(limits);
  ASSERT_TRUE(step.check(batch.view()));
  const llama_batch laid_out = step.lay_out(batch.view(), RowInput::kRows, batch.hidden);
  EXPECT_THAT(step.places(), ElementsAre(2, 0, 1));
  EXPECT_EQ(laid_out.token, nullptr);
  EXPECT_THAT(std::vector(laid_out.embd, laid_out.embd + 6), ElementsAre(20, 21, 30, 31, 10, 11));
  EXPECT_THAT(std::vector(laid_out.pos, laid_out.pos + 9),
              ElementsAre(2, 3, 1, 12, 13, 11, 22, 23, 21));
  EXPECT_EQ(laid_out.seq_id[0][0], 2);
  EXPECT_EQ(laid_out.seq_id[2][0], 6);
  // A stage that isn't last marks all rows, or libllama would drop them in the last layer.
  EXPECT_THAT(std::vector(laid_out.logits, laid_out.logits + 3), ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace salvage::engine
