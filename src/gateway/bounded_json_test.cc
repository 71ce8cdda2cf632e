// Goal: foreign JSON is refused before it costs anything, and never throws. Method: texts at and
// beyond the limits.

#include "gateway/bounded_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salvage::gateway {
namespace {

TEST(BoundedJson, what_is_within_the_limits_is_read) {
  const auto json = parse_bounded_json(R"({"a":[1,"]]]]"]})", {.bytes_max = 100, .depth_max = 2});
  ASSERT_TRUE(json) << json.error().message();
  EXPECT_EQ(to_line(*json), R"({"a":[1,"]]]]"]})");
}

TEST(BoundedJson, one_byte_or_one_level_too_many_is_refused) {
  EXPECT_TRUE(parse_bounded_json("[1,2]", {.bytes_max = 5}));
  EXPECT_FALSE(parse_bounded_json("[1,23]", {.bytes_max = 5}));
  EXPECT_TRUE(parse_bounded_json("[[1]]", {.depth_max = 2}));
  EXPECT_FALSE(parse_bounded_json("[[[1]]]", {.depth_max = 2}));
}

TEST(BoundedJson, a_quote_within_a_text_ends_nothing) {
  EXPECT_TRUE(parse_bounded_json(R"(["\"[[[["])", {.depth_max = 1}));
}

TEST(BoundedJson, noise_is_refused_with_its_place) {
  for (const char* text : {"", "{", "{\"a\":}", "\xff", "[1,]", "nul", "1e999999"}) {
    const auto json = parse_bounded_json(text, {});
    ASSERT_FALSE(json) << text;
    EXPECT_EQ(json.error().code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_NE(parse_bounded_json("[1,]", {}).error().message().find("byte 4"), std::string::npos);
}

TEST(BoundedJson, broken_characters_never_leave) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["a"] = std::string("x\xff");
  EXPECT_EQ(to_line(json), "{\"a\":\"x\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace salvage::gateway
