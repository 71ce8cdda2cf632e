// Goal: schemas and grammars that would cost libllama's converters their stack, memory or an hour
// are refused at once, and those that people write are not. Method: one of each kind of both.
#include "engine/schema_limits.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::engine {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

std::string problem(const Json& schema) {
  const auto checked = check_schema(schema);
  return checked ? "" : checked.error().message();
}

std::string grammar_problem(const std::string& grammar) {
  const auto checked = check_grammar_text(grammar);
  return checked ? "" : checked.error().message();
}

// {"type": [...], "properties": {"a": {"type": [...], ...}}}
Json nested(int levels, const Json& type) {
  Json schema{{"type", "string"}};
  for (int i = 0; i < levels; ++i) {
    schema = Json{{"type", type}, {"properties", {{"a", std::move(schema)}}}};
  }
  return schema;
}

TEST(SchemaLimitsTest, schemas_that_people_write_pass) {
  EXPECT_EQ(problem(Json::object()), "");
  EXPECT_EQ(problem(nested(30, "object")), "");
  EXPECT_EQ(problem(nested(30, Json::array({"object", "null"}))), "");
  const Json recursive = Json::parse(R"({"$ref": "#/$defs/node", "$defs": {"node": {
      "type": "object", "properties": {"next": {"$ref": "#/$defs/node"},
      "list": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}})");
  EXPECT_EQ(problem(recursive), "");
  Json wide{{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 200; ++i) wide["properties"]["p" + std::to_string(i)] = {{"type", "integer"}};
  EXPECT_EQ(problem(wide), "");
}

TEST(SchemaLimitsTest, only_an_object_is_a_schema) {
  for (const Json& json : {Json(), Json(1), Json("string"), Json::array()}) {
    EXPECT_THAT(problem(json), HasSubstr("JSON object"));
  }
}

TEST(SchemaLimitsTest, nesting_is_bounded) {
  EXPECT_THAT(problem(nested(60, "object")), HasSubstr("deep"));
  Json deep = 1;
  for (int i = 0; i < 100000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_TRUE(json_is_deep(deep));
  EXPECT_FALSE(json_is_deep(Json::array({Json::array({1, 2}), Json::object()})));
  EXPECT_FALSE(json_is_deep(Json("text")));
}

TEST(SchemaLimitsTest, types_that_multiply_the_work_at_each_level_are_refused) {
  EXPECT_THAT(problem(nested(40, Json::array({"object", "object"}))), HasSubstr("too large"));
}

TEST(SchemaLimitsTest, size_names_and_properties_are_bounded) {
  Json wide{{"properties", Json::object()}};
  for (int i = 0; i < 300; ++i) wide["properties"]["p" + std::to_string(i)] = Json::object();
  EXPECT_THAT(problem(wide), HasSubstr("300"));
  EXPECT_THAT(problem({{"properties", {{std::string(600, 'x'), Json::object()}}}}),
              HasSubstr("600"));
  Json many{{"enum", Json::array()}};
  for (int i = 0; i < 20000; ++i) many["enum"].push_back(i);
  EXPECT_THAT(problem(many), HasSubstr("too large"));
}

TEST(SchemaLimitsTest, references_in_a_circle_are_refused) {
  const Json circle = Json::parse(R"({"allOf": [{"$ref": "#/$defs/a"}],
      "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})");
  EXPECT_THAT(problem(circle), HasSubstr("circle"));
  const Json array = Json::parse(R"({"allOf": [{"$ref": "#/x/0"}], "x": [{"$ref": "#/x/0"}]})");
  EXPECT_THAT(problem(array), HasSubstr("circle"));
  Json many{{"anyOf", Json::array()}};
  for (int i = 0; i < 300; ++i) many["anyOf"].push_back({{"$ref", "#/anyOf/0"}});
  EXPECT_THAT(problem(many), HasSubstr("300 references"));
}

TEST(GrammarLimitsTest, grammars_that_people_write_pass) {
  EXPECT_EQ(grammar_problem("root ::= \"a\"{1,2000} [a-z]{3} ([0-9] | \"\\\"\")* # {9,1}\n"), "");
  EXPECT_EQ(grammar_problem(""), "");
  EXPECT_EQ(grammar_problem("root ::= \"unterminated"), "");  // not a matter of limits
  EXPECT_EQ(grammar_problem("root ::= [unterminated"), "");
  EXPECT_EQ(grammar_problem("root ::= \"a\"{"), "");
}

TEST(GrammarLimitsTest, what_would_expand_without_end_is_refused) {
  EXPECT_THAT(grammar_problem("root ::= \"a\"{5,3}"), HasSubstr("wrong way round"));
  EXPECT_THAT(grammar_problem("root ::= " + std::string(300, '(') + "\"a\""), HasSubstr("deep"));
  std::string heavy = "root ::= ";
  for (int i = 0; i < 100; ++i) heavy += "\"" + std::string(1000, 'x') + "\"{1999} ";
  EXPECT_THAT(grammar_problem(heavy), HasSubstr("repetitions"));
  EXPECT_THAT(grammar_problem("# " + std::string(3U << 20, 'x')), HasSubstr("bytes"));
}

TEST(GrammarLimitsTest, numbers_of_any_size_are_read) {
  EXPECT_THAT(grammar_problem("root ::= \"a\"{99999999999999999999999}"), HasSubstr("2000"));
  EXPECT_EQ(grammar_problem("root ::= \"a\"{1,99999999999999999999999}"), "");
  EXPECT_THAT(grammar_problem("root ::= \"a\"{99999999999999999999999,1}"), HasSubstr("2000"));
}

}  // namespace
}  // namespace salvage::engine
