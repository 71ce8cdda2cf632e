// Goal: a header says exactly what was put in, and no damaged or hostile one gets through. Method:
// every single bit of a header flipped, every limit exceeded by one.

#include "wire/frame.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::wire {
namespace {

using testing::HasSubstr;

FrameHeader sample() {
  FrameHeader header;
  header.type = FrameType::kMicroBatch;
  header.flags = 0x80;
  header.epoch.value = 0x1122334455667788;
  header.step.value = 42;
  header.data_bytes = 16384;
  header.body_bytes = 37;
  header.checksum = 0xFEDCBA9876543210;
  return header;
}

TEST(FrameHeader, comes_back_as_it_went) {
  const auto decoded = decode_header(encode_header(sample()));
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(*decoded, sample());
}

TEST(FrameHeader, any_flipped_bit_before_the_checksum_is_found) {
  const FrameHeaderBytes good = encode_header(sample());
  for (std::size_t bit = 0; bit < 40 * 8; ++bit) {
    FrameHeaderBytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto decoded = decode_header(bad);
    ASSERT_FALSE(decoded) << "bit " << bit;
    EXPECT_EQ(decoded.error().code(), ErrorCode::kCorrupt);
  }
}

TEST(FrameHeader, another_version_is_refused_by_name_of_both) {
  FrameHeader header = sample();
  for (const int version : {0, kWireVersion + 1}) {
    header.version = static_cast<std::uint16_t>(version);
    const auto decoded = decode_header(encode_header(header));
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(decoded.error().message(),
                HasSubstr("wire version " + std::to_string(version) + ", this program 1 to 2"));
  }
}

TEST(FrameHeader, introductions_of_every_version_are_read) {
  FrameHeader header;
  for (const FrameType type : {FrameType::kHello, FrameType::kHelloReply}) {
    for (const int version : {0, kWireVersion + 1, 0xFFFF}) {
      header.type = type;
      header.version = static_cast<std::uint16_t>(version);
      const auto decoded = decode_header(encode_header(header));
      ASSERT_TRUE(decoded) << decoded.error().message();
      EXPECT_EQ(*decoded, header);
    }
  }
}

TEST(FrameHeader, unknown_types_are_refused) {
  FrameHeader header = sample();
  for (const int type : {0, 26, 31, 36, 47, 49, 255}) {
    header.type = static_cast<FrameType>(type);
    const auto decoded = decode_header(encode_header(header));
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code(), ErrorCode::kUnsupported);
  }
}

TEST(FrameHeader, lengths_over_their_limits_are_refused) {
  FrameHeader header = sample();
  header.data_bytes = kDataBytesMax;
  header.body_bytes = kDataBodyBytesMax;
  EXPECT_TRUE(decode_header(encode_header(header)));
  header.data_bytes = kDataBytesMax + 1;
  EXPECT_FALSE(decode_header(encode_header(header)));
  header.data_bytes = 0;
  header.body_bytes = kDataBodyBytesMax + 1;
  EXPECT_FALSE(decode_header(encode_header(header)));

  header.type = FrameType::kPing;
  header.body_bytes = kControlBodyBytesMax;
  EXPECT_TRUE(decode_header(encode_header(header)));
  header.body_bytes = kControlBodyBytesMax + 1;
  EXPECT_FALSE(decode_header(encode_header(header)));
  header.body_bytes = 0;
  header.data_bytes = 1;
  EXPECT_FALSE(decode_header(encode_header(header))) << "control frames carry no data";

  header.type = FrameType::kBlobReply;
  header.data_bytes = kBlobBytesMax;
  EXPECT_TRUE(decode_header(encode_header(header)));
  header.data_bytes = kBlobBytesMax + 1;
  EXPECT_FALSE(decode_header(encode_header(header)));
}

TEST(Payload, any_flipped_bit_is_found_and_body_and_data_are_one_stream) {
  std::array<std::byte, 12> body{std::byte{1}, std::byte{2}};
  std::array<std::byte, 300> data{std::byte{3}};
  FrameHeader header = sample();
  header.body_bytes = body.size();
  header.data_bytes = data.size();
  header.checksum = payload_checksum(body, data);
  EXPECT_TRUE(verify_payload(header, body, data));
  for (std::size_t bit = 0; bit < data.size() * 8; bit += 7) {
    data[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(verify_payload(header, body, data));
    data[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  body[0] ^= std::byte{1};
  EXPECT_FALSE(verify_payload(header, body, data));
  body[0] ^= std::byte{1};
  EXPECT_FALSE(verify_payload(header, std::span(body).first(11), data));

  std::vector<std::byte> both(body.begin(), body.end());
  both.insert(both.end(), data.begin(), data.end());
  EXPECT_EQ(payload_checksum(both, {}), header.checksum);
  EXPECT_EQ(payload_checksum({}, both), header.checksum);
}

}  // namespace
}  // namespace salvage::wire
