// Goal: a stop string never shows, nothing else is lost or held back for long. Method: texts pushed
// in every possible pair of pieces.

#include "pipeline/stop_filter.h"

#include <gtest/gtest.h>

namespace salvage::pipeline {
namespace {

TEST(StopFilter, without_stop_strings_passes_everything_at_once) {
  StopFilter filter({});
  EXPECT_EQ(filter.push("abc"), "abc");
  EXPECT_EQ(filter.push(""), "");
  EXPECT_EQ(filter.finish(), "");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, an_empty_stop_string_stops_nothing) {
  StopFilter filter({""});
  EXPECT_EQ(filter.push("abc"), "abc");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, finds_a_stop_string_however_it_is_cut) {
  const std::string text = "hello<|end|>rest";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    StopFilter filter({"<|end|>"});
    std::string shown = filter.push(text.substr(0, cut));
    shown += filter.push(text.substr(cut));
    EXPECT_EQ(shown, "hello") << cut;
    EXPECT_TRUE(filter.stopped());
    EXPECT_EQ(filter.push("more"), "");
    EXPECT_EQ(filter.finish(), "");
  }
}

TEST(StopFilter, holds_back_only_what_may_become_a_stop_string) {
  StopFilter filter({"STOP"});
  EXPECT_EQ(filter.push("abcST"), "abc");
  EXPECT_EQ(filter.push("x"), "STx");
  EXPECT_EQ(filter.push("yS"), "y");
  EXPECT_EQ(filter.finish(), "S");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, a_beginning_that_begins_again_is_found) {
  StopFilter filter({"aab"});
  EXPECT_EQ(filter.push("aa"), "");
  EXPECT_EQ(filter.push("a"), "a");
  EXPECT_EQ(filter.push("b!"), "");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilter, of_several_the_earliest_counts) {
  StopFilter filter({"###", "User:"});
  EXPECT_EQ(filter.push("fine. User: ### x"), "fine. ");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilter, characters_of_several_bytes_are_held_back_whole) {
  StopFilter filter({"完。"});
  EXPECT_EQ(filter.push("做完"), "做");
  EXPECT_EQ(filter.push("了"), "完了");
}

}  // namespace
}  // namespace salvage::pipeline
