// Goal: all bytes come out in order, small frames as one record, large parts without a copy.

#include "transport/tls/record_cutter.h"

#include <gtest/gtest.h>

namespace salvage::transport {
namespace {

std::vector<std::byte> bytes(std::size_t count, unsigned seed) {
  std::vector<std::byte> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<std::byte>(i * 7 + seed + i / 256);
  return made;
}

bool inside(RecordCutter::Bytes record, const std::vector<std::byte>& part) {
  return record.data() >= part.data() && record.data() + record.size() <= part.data() + part.size();
}

TEST(RecordCutter, every_mix_of_sizes_comes_out_whole_and_in_order) {
  const std::size_t sizes[] = {0, 1, 48, kRecordBytes - 1, kRecordBytes, kRecordBytes + 1, 50000};
  RecordCutter cutter;
  for (const std::size_t a : sizes) {
    for (const std::size_t b : sizes) {
      for (const std::size_t c : sizes) {
        const auto first = bytes(a, 1);
        const auto second = bytes(b, 2);
        const auto third = bytes(c, 3);
        std::vector<std::byte> wanted = first;
        wanted.insert(wanted.end(), second.begin(), second.end());
        wanted.insert(wanted.end(), third.begin(), third.end());
        std::vector<std::byte> got;
        cutter.begin({first, second, third});
        while (!cutter.empty()) {
          const auto record = cutter.next();
          ASSERT_FALSE(record.empty());
          ASSERT_LE(record.size(), kRecordBytes);
          got.insert(got.end(), record.begin(), record.end());
        }
        ASSERT_EQ(got, wanted) << a << " " << b << " " << c;
      }
    }
  }
}

TEST(RecordCutter, a_small_frame_is_one_record) {
  const auto header = bytes(48, 1);
  const auto body = bytes(60, 2);
  const auto data = bytes(kRecordBytes - 108, 3);
  RecordCutter cutter;
  cutter.begin({header, body, data});
  EXPECT_EQ(cutter.next().size(), kRecordBytes);
  EXPECT_TRUE(cutter.empty());
}

TEST(RecordCutter, only_the_first_record_of_large_data_is_copied) {
  const auto header = bytes(48, 1);
  const auto body = bytes(60, 2);
  const auto data = bytes(10 * kRecordBytes, 3);
  RecordCutter cutter;
  cutter.begin({header, body, data});
  EXPECT_FALSE(inside(cutter.next(), data));
  int borrowed = 0;
  for (; !cutter.empty(); ++borrowed) EXPECT_TRUE(inside(cutter.next(), data));
  EXPECT_EQ(borrowed, 10);
}

TEST(RecordCutter, a_frame_without_data_lends_its_header) {
  const auto header = bytes(48, 1);
  RecordCutter cutter;
  cutter.begin({header, {}, {}});
  EXPECT_TRUE(inside(cutter.next(), header));
  EXPECT_TRUE(cutter.empty());
}

}  // namespace
}  // namespace salvage::transport
