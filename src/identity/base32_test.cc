// Goal: all bytes come back, in every length, and nothing but the alphabet is read.

#include "identity/base32.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::identity {
namespace {

TEST(Base32, bytes_of_every_length_come_back) {
  std::string bytes;
  for (int length = 0; length < 40; ++length) {
    const auto back = base32_decode(base32_encode(bytes));
    ASSERT_TRUE(back) << length;
    EXPECT_EQ(*back, bytes);
    bytes.push_back(static_cast<char>(length * 37 + 200));
  }
}

TEST(Base32, a_known_text_stays_what_it_is) {
  EXPECT_EQ(base32_encode("hello"), "d1jprv3f");
  EXPECT_EQ(base32_encode(std::string("\xff", 1)), "zw");
  EXPECT_EQ(base32_encode(""), "");
}

TEST(Base32, confusable_letters_case_dashes_and_spaces_are_forgiven) {
  const std::string bytes("\x00\x42\x10\x84\x21", 5);  // 0 1 1 1 ... in digits
  const std::string text = base32_encode(bytes);
  EXPECT_EQ(text, "01111111");
  for (const char* written : {"O1111111", "oIlLi111", "0111-1111", " 01 11 11 11\n"}) {
    const auto back = base32_decode(written);
    ASSERT_TRUE(back) << written;
    EXPECT_EQ(*back, bytes) << written;
  }
}

TEST(Base32, what_no_code_has_is_named) {
  const auto letter = base32_decode("abu");
  ASSERT_FALSE(letter);
  EXPECT_THAT(letter.error().message(), testing::HasSubstr("'u'"));
  const auto byte = base32_decode("ab\xc3");
  ASSERT_FALSE(byte);
  EXPECT_THAT(byte.error().message(), testing::HasSubstr("0xc3"));
}

TEST(Base32, a_text_that_ends_inside_a_byte_is_refused) {
  EXPECT_FALSE(base32_decode("0"));    // five bits are no byte
  EXPECT_FALSE(base32_decode("01"));   // two bits too many, not zero
  EXPECT_TRUE(base32_decode("00"));    // one byte
  EXPECT_FALSE(base32_decode("000"));  // seven bits too many
}

}  // namespace
}  // namespace salvage::identity
