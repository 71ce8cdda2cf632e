// Goal: what goes in comes out, what does not fit together is refused on both sides. Method: random
// valid batches there and back (rapidcheck), every truncation of one, then each rule broken once.

#include "wire/micro_batch.h"

#include <functional>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "wire/data_generate.h"

namespace salvage::wire {
namespace {

FrameHeader header_of(const MicroBatch& batch) {
  FrameHeader header;
  header.type = FrameType::kMicroBatch;
  header.epoch = batch.epoch;
  header.step = batch.step;
  header.data_bytes = hidden_bytes(batch.hidden);
  return header;
}

MicroBatch two_rows() {
  MicroBatch batch;
  batch.tokens = {7, 8};
  batch.positions = {0, 1};
  batch.sequences = {{0}, {0}};
  batch.wants_logits = {0, 1};
  batch.hidden = {2, 16, HiddenType::kF32};
  return batch;
}

TEST(MicroBatch, any_valid_one_comes_back_as_it_went) {
  EXPECT_TRUE(rc::check("decode(encode(x)) == x", [](std::uint64_t seed) {
    const MicroBatch batch = generate_micro_batch(seed);
    std::vector<std::byte> body;
    RC_ASSERT(encode(batch, body).has_value());
    MicroBatch back = generate_micro_batch(seed + 1);  // a used object: nothing may be left of it
    RC_ASSERT(decode(header_of(batch), body, back).has_value());
    RC_ASSERT(back == batch);
  }));
}

TEST(MicroBatch, every_truncation_and_any_extra_byte_is_corrupt) {
  const MicroBatch batch = generate_micro_batch(12);
  std::vector<std::byte> body;
  ASSERT_TRUE(encode(batch, body));
  MicroBatch back;
  for (std::size_t length = 0; length < body.size(); ++length) {
    const auto decoded = decode(header_of(batch), std::span(body).first(length), back);
    ASSERT_FALSE(decoded) << length;
    EXPECT_EQ(decoded.error().code(), ErrorCode::kCorrupt);
  }
  body.push_back(std::byte{0});
  EXPECT_FALSE(decode(header_of(batch), body, back));
}

TEST(MicroBatch, decoding_again_into_the_same_object_allocates_nothing) {
  const MicroBatch batch = two_rows();
  std::vector<std::byte> body;
  ASSERT_TRUE(encode(batch, body));
  MicroBatch back;
  ASSERT_TRUE(decode(header_of(batch), body, back));
  const TokenId* tokens = back.tokens.data();
  ASSERT_TRUE(decode(header_of(batch), body, back));
  EXPECT_EQ(back.tokens.data(), tokens);
}

TEST(MicroBatch, lists_that_do_not_fit_together_are_not_sent) {
  const std::vector<std::function<void(MicroBatch&)>> faults = {
      [](MicroBatch& b) { b.positions.pop_back(); },
      [](MicroBatch& b) { b.sequences.pop_back(); },
      [](MicroBatch& b) { b.wants_logits.pop_back(); },
      [](MicroBatch& b) { b.wants_logits[0] = 2; },
      [](MicroBatch& b) { b.position_planes = 3; },
      [](MicroBatch& b) { b.hidden.row_count = 1; },
      [](MicroBatch& b) { b.hidden.row_width = kRowWidthMax + 1; },
      [](MicroBatch& b) { b.logits.top_k = 5; },
      [](MicroBatch& b) {
        b.logits = {LogitsForm::kTopK, 0};
      },
      [](MicroBatch& b) {
        b.logits = {LogitsForm::kTopK, kTopKMax + 1};
      },
      [](MicroBatch& b) { b.ops.resize(kSequenceOpsMax + 1); },
      [](MicroBatch& b) { b.ops.resize(65536 + 1); },  // 1 in the wire's 16 bits
      [](MicroBatch& b) { b.timings.resize(kStagesMax + 1); },
      [](MicroBatch& b) { b.tokens.resize(kRowsMax + 1); },
  };
  for (std::size_t i = 0; i < faults.size(); ++i) {
    MicroBatch batch = two_rows();
    faults[i](batch);
    std::vector<std::byte> body;
    const auto encoded = encode(batch, body);
    ASSERT_FALSE(encoded) << "fault " << i;
    EXPECT_EQ(encoded.error().code(), ErrorCode::kInvalidArgument) << "fault " << i;
  }
}

TEST(MicroBatch, what_this_version_does_not_know_is_refused_not_skipped) {
  MicroBatch batch = two_rows();
  batch.ops.resize(1);
  std::vector<std::byte> good;
  ASSERT_TRUE(encode(batch, good));
  // flags, logits form, hidden type, kind of the sequence operation (docs/wire.md).
  const std::vector<std::pair<std::size_t, int>> unknown = {
      {7, 0x81}, {8, 3}, {9, 3}, {24, 3}, {24, 6}};
  for (const auto& [offset, value] : unknown) {
    auto bad = good;
    bad[offset] = static_cast<std::byte>(value);
    MicroBatch back;
    const auto decoded = decode(header_of(batch), bad, back);
    ASSERT_FALSE(decoded) << offset;
    EXPECT_EQ(decoded.error().code(), ErrorCode::kUnsupported) << offset;
  }
}

TEST(MicroBatch, a_huge_row_count_in_a_small_body_is_refused) {
  std::vector<std::byte> body;
  ASSERT_TRUE(encode(two_rows(), body));
  for (const unsigned count : {0x01U, 0xFFU}) {
    auto bad = body;
    bad[2] = static_cast<std::byte>(count);  // 65,538 rows, 16 million rows
    MicroBatch back;
    EXPECT_FALSE(decode(header_of(two_rows()), bad, back));
    EXPECT_LE(back.tokens.capacity(), kRowsMax);
  }
}

TEST(MicroBatch, the_header_must_announce_the_hidden_states_that_the_body_describes) {
  std::vector<std::byte> body;
  ASSERT_TRUE(encode(two_rows(), body));
  FrameHeader header = header_of(two_rows());
  header.data_bytes += 4;
  MicroBatch back;
  EXPECT_FALSE(decode(header, body, back));
}

TEST(Credit, comes_back_and_keeps_its_limit) {
  std::vector<std::byte> body;
  ASSERT_TRUE(encode(Credit{kCreditsMax}, body));
  Credit back;
  ASSERT_TRUE(decode(FrameHeader{}, body, back));
  EXPECT_EQ(back.count, kCreditsMax);
  EXPECT_FALSE(encode(Credit{kCreditsMax + 1}, body));
  body[3] = std::byte{0xFF};
  EXPECT_FALSE(decode(FrameHeader{}, body, back));
  body.push_back(std::byte{0});
  EXPECT_FALSE(decode(FrameHeader{}, body, back));
}

}  // namespace
}  // namespace salvage::wire
