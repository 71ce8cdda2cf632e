// Goal: never half a character, never anything but UTF-8, nothing lost or delayed that is complete.
// Method: the examples of the Unicode standard, then texts and noise cut at every place.

#include "base/utf8.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace salvage {
namespace {

const std::string kText = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\xA6\x99z";  // a, e acute, zhong, llama, z
const std::string kReplacement = "\xEF\xBF\xBD";

TEST(ValidUtf8, accepts_text_and_refuses_what_the_standard_refuses) {
  EXPECT_TRUE(valid_utf8(""));
  EXPECT_TRUE(valid_utf8(kText));
  EXPECT_TRUE(valid_utf8(std::string("\0x", 2)));
  EXPECT_TRUE(valid_utf8("\xF4\x8F\xBF\xBF"));
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF",
                          "\xC3", "\xE4\xB8", "\xF0\x9F\xA6", "\xC3(", "\xE4\xB8("}) {
    EXPECT_FALSE(valid_utf8(bad));
    EXPECT_FALSE(valid_utf8(kText + bad));
    EXPECT_EQ(utf8_valid_prefix(kText + bad), kText.size());
  }
}

TEST(Utf8Stream, an_emoji_in_four_pieces_appears_whole_with_the_fourth) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0"), "");
  EXPECT_EQ(stream.push("\x9F"), "");
  EXPECT_EQ(stream.push("\xA6"), "");
  EXPECT_EQ(stream.push("\x99"), "\xF0\x9F\xA6\x99");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, byte_fallback_tokens_that_make_no_character_become_replacements) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xE4"), "");
  EXPECT_EQ(stream.push("ok"), kReplacement + "ok");
  EXPECT_EQ(stream.push("\x80"), kReplacement);
  EXPECT_EQ(stream.push("\xF0\x9F"), "");
  EXPECT_EQ(stream.finish(), kReplacement);
  EXPECT_EQ(stream.finish(), "") << "finish() starts anew";
}

// The standard's own example of maximal subparts (chapter 3, table 3-8).
TEST(Utf8Stream, replaces_each_maximal_part_once) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + kReplacement + kReplacement + kReplacement + "b" + kReplacement + "c" +
                kReplacement + kReplacement + "d");
}

TEST(Utf8Stream, cutting_the_input_anywhere_changes_nothing) {
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    while (text.size() < 24) {
      if (random.below(3) == 0) {
        text.push_back(static_cast<char>(random()));
      } else {
        text += kText.substr(random.below(kText.size()), 1 + random.below(5));
      }
    }
    Utf8Stream whole;
    std::string expected = whole.push(text);
    expected += whole.finish();
    ASSERT_TRUE(valid_utf8(expected));
    Utf8Stream pieces;
    std::string got;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t count = 1 + random.below(4);
      const std::string out = pieces.push(text.substr(at, count));
      ASSERT_TRUE(valid_utf8(out));
      got += out;
      at += count;
    }
    got += pieces.finish();
    ASSERT_EQ(got, expected);
  }
}

TEST(WellFormedUtf8, a_whole_text_is_made_well_formed_at_once) {
  EXPECT_EQ(well_formed_utf8(kText), kText);
  EXPECT_EQ(well_formed_utf8("a\xff"
                             "b\xe4\xbd"),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
  EXPECT_EQ(well_formed_utf8(""), "");
}

}  // namespace
}  // namespace salvage
