// Goal: foreign JSON is refused before it costs anything, and never throws. Method: texts at and
// beyond the limits.

#include "api/bounded_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salvage::api {
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

TEST(BoundedJson, values_are_counted_before_they_are_built) {
  EXPECT_TRUE(parse_bounded_json("[1,2,[3]]", {.values_max = 4}));
  const auto json = parse_bounded_json("[1,2,[3]]", {.values_max = 3});
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().message(), "the JSON has more than 3 values");
  EXPECT_TRUE(parse_bounded_json(R"([",,,,[[[{{{"])", {.values_max = 1})) << "within a text";
}

// Each key is looked for among those before it: {a,b,c,d} costs 0 + 1 + 2 + 3.
TEST(BoundedJson, an_object_of_many_keys_is_refused_for_its_work) {
  const std::string_view four = R"({"a":1,"b":1,"c":1,"d":1})";
  EXPECT_TRUE(parse_bounded_json(four, {.key_lookups_max = 6}));
  const auto json = parse_bounded_json(four, {.key_lookups_max = 5});
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().message(), "the JSON has objects of too many keys");
  EXPECT_TRUE(parse_bounded_json(R"([{"a":1},{"a":1},{"a":{"a":1}}])", {.key_lookups_max = 0}))
      << "a new object begins anew";
}

TEST(BoundedJson, a_quote_within_a_text_ends_nothing) {
  EXPECT_TRUE(parse_bounded_json(R"(["\"[[[["])", {.depth_max = 1}));
}

TEST(BoundedJson, noise_is_refused_with_its_place) {
  for (const char* text : {"", "{", "{\"a\":}", "\xff", "[1,]", "nul", "1e999999", "]]]", ":::"}) {
    const auto json = parse_bounded_json(text, {});
    ASSERT_FALSE(json) << text;
    EXPECT_EQ(json.error().code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_NE(parse_bounded_json("[1,]", {}).error().message().find("byte 4"), std::string::npos);
}

TEST(BoundedJson, broken_characters_never_leave) {
  Json json = Json::object();
  json["a"] = std::string("x\xff");
  EXPECT_EQ(to_line(json), "{\"a\":\"x\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace salvage::api
