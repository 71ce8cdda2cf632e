// Goal: the fields that every dialect shares are read alike, unknown ones tolerated, impossible
// ones named. Method: requests of completions and of chats.

#include "api/common_fields.h"

#include <gtest/gtest.h>

#include "api/limits.h"
#include "api/test_request.h"

namespace salvage::api {
namespace {

// A completion with these fields beside its prompt.
std::string with(std::string_view fields) {
  return R"({"prompt": "x", )" + std::string(fields) + "}";
}

GenerateRequest taken_with(std::string_view fields) {
  return taken(Dialect::kLlama, with(fields));
}

ApiError refused_with(std::string_view fields) {
  return refused(Dialect::kLlama, with(fields));
}

TEST(CommonFields, what_is_not_said_is_the_default) {
  const GenerateRequest request = taken(Dialect::kLlama, R"({"prompt": "x"})");
  EXPECT_EQ(request.model, "");
  EXPECT_EQ(request.tokens_max, std::nullopt);
  EXPECT_EQ(request.choices, 1U);
  EXPECT_FALSE(request.stream || request.include_usage || request.return_progress ||
               request.timings_per_token || request.return_tokens || request.echo);
  EXPECT_TRUE(request.cache_prompt);
  EXPECT_EQ(request.logprobs, std::nullopt);
  EXPECT_EQ(request.predict_ms_max, std::nullopt);
}

TEST(CommonFields, each_field_arrives) {
  const GenerateRequest request = taken_with(R"(
      "model": "m", "user": "u", "n": 3, "stream": true, "stream_options": {"include_usage": true},
      "return_progress": true, "timings_per_token": true, "return_tokens": true,
      "cache_prompt": false, "t_max_predict_ms": 500,
      "response_fields": ["content", "timings/prompt_ms"], "grammar": "root ::= \"a\"")");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.user, "u");
  EXPECT_EQ(request.choices, 3U);
  EXPECT_TRUE(request.stream && request.include_usage && request.return_progress &&
              request.timings_per_token && request.return_tokens);
  EXPECT_FALSE(request.cache_prompt);
  EXPECT_EQ(request.predict_ms_max, 500);
  EXPECT_EQ(request.response_fields, (std::vector<std::string>{"content", "timings/prompt_ms"}));
  EXPECT_EQ(request.grammar, "root ::= \"a\"");
}

TEST(CommonFields, the_tier_says_who_goes_first) {
  EXPECT_EQ(taken_with(R"("service_tier": "flex")").priority, -1);
  EXPECT_EQ(taken_with(R"("service_tier": "priority")").priority, 1);
  for (const char* const other : {R"("auto")", R"("default")", R"("standard_only")", "null"}) {
    EXPECT_EQ(taken_with(std::string(R"("service_tier": )") + other).priority, 0) << other;
  }
}

TEST(CommonFields, pings_come_as_often_as_asked_for_or_never) {
  EXPECT_EQ(taken_with(R"("sse_ping_interval": 5)").ping_seconds, 5U);
  EXPECT_EQ(taken_with(R"("sse_ping_interval": -1)").ping_seconds, 0U);
  EXPECT_EQ(taken_with(R"("sse_ping_interval": null)").ping_seconds, std::nullopt);
  EXPECT_EQ(taken_with("\"n\": 1").ping_seconds, std::nullopt);
  EXPECT_EQ(refused_with(R"("sse_ping_interval": -2)").param, "sse_ping_interval");
}

TEST(CommonFields, fields_of_nobody_are_tolerated) {
  taken_with(R"("store": true, "service_tier": {"a": 1}, "id_slot": 2, "x": [[]], "metadata": 5,
                "speculative.n_max": 3, "backend_sampling": true, "lora": [], "n_indent": 0)");
}

TEST(CommonFields, the_token_limit_has_many_names_and_an_order) {
  EXPECT_EQ(taken_with(R"("max_tokens": 5)").tokens_max, 5U);
  EXPECT_EQ(taken_with(R"("max_completion_tokens": 6, "max_tokens": 5)").tokens_max, 6U);
  EXPECT_EQ(taken_with(R"("n_predict": 7, "max_tokens": 5)").tokens_max, 7U);
  EXPECT_EQ(taken_with(R"("n_predict": 0)").tokens_max, 0U);
  EXPECT_EQ(taken_with(R"("n_predict": -1)").tokens_max, std::nullopt);
  EXPECT_EQ(taken_with(R"("n_predict": null, "max_tokens": 5.0)").tokens_max, 5U);
  EXPECT_EQ(refused_with(R"("max_tokens": -2)").param, "max_tokens");
  EXPECT_EQ(refused_with(R"("max_tokens": "5")").param, "max_tokens");
  EXPECT_EQ(refused_with(R"("max_tokens": 1e12)").param, "max_tokens");
}

TEST(CommonFields, stop_is_a_text_or_up_to_sixteen) {
  EXPECT_EQ(taken_with(R"("stop": "a")").stop, (std::vector<std::string>{"a"}));
  EXPECT_EQ(taken_with(R"("stop": ["a", "", "b"])").stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(taken_with(R"("stop": "")").stop.empty());
  EXPECT_TRUE(taken_with(R"("stop": null)").stop.empty());
  std::string many = R"("stop": ["0")";
  for (int i = 1; i < 16; ++i) many += ", \"" + std::to_string(i) + '"';
  EXPECT_EQ(taken_with(many + "]").stop.size(), 16U);
  EXPECT_EQ(refused_with(many + ", \"16\"]").param, "stop");
  EXPECT_EQ(refused_with(R"("stop": ["a", 1])").param, "stop");
  EXPECT_EQ(refused_with(R"("stop": {"a": 1})").param, "stop");
  EXPECT_EQ(refused_with(R"("stop": ")" + std::string(kStopBytesMax + 1, 'a') + '"').param, "stop");
}

TEST(CommonFields, no_more_answers_than_are_made_at_a_time) {
  const ParseLimits limits{.choices_max = 2};
  EXPECT_EQ(taken(Dialect::kLlama, with(R"("n": 2)"), limits).choices, 2U);
  EXPECT_EQ(refused(Dialect::kLlama, with(R"("n": 3)"), limits).message,
            "'n' is 3, but only 2 answers are made at a time");
  EXPECT_EQ(refused(Dialect::kLlama, with(R"("n_cmpl": 3)"), limits).param, "n_cmpl");
  EXPECT_EQ(refused_with(R"("n": 0)").param, "n");
  EXPECT_EQ(refused_with(R"("n": 129)").param, "n");
}

TEST(CommonFields, what_cannot_be_done_is_said_and_not_passed_over) {
  for (const char* fields :
       {R"("lora": [{"id": 0, "scale": 1}])", R"("image_data": [{"data": "", "id": 1}])",
        R"("n_indent": 4)", R"("grammar_lazy": true)"}) {
    EXPECT_EQ(refused_with(fields).kind, ErrorKind::kNotSupported) << fields;
  }
}

TEST(CommonFields, a_schema_is_an_object_and_stands_alone) {
  EXPECT_EQ(to_line(*taken_with(R"("json_schema": {"b": 1, "a": 2})").json_schema),
            R"({"b":1,"a":2})");
  const ApiError error = refused_with(R"("json_schema": "x")");
  EXPECT_EQ(error.kind, ErrorKind::kInvalidJsonSchema);
  EXPECT_EQ(error.param, "json_schema");
  EXPECT_EQ(refused_with(R"("json_schema": {}, "grammar": "root ::= \"a\"")").param, "grammar");
}

TEST(CommonFields, a_user_of_any_kind_is_no_reason_to_refuse) {
  EXPECT_EQ(taken_with(R"("user": 5)").user, "");
  EXPECT_EQ(taken_with(R"("safety_identifier": "s", "user": "u")").user, "s");
  const std::string long_name(kNameBytesMax + 9, 'a');
  EXPECT_EQ(taken_with("\"user\": \"" + long_name + '"').user.size(), kNameBytesMax);
}

TEST(CommonFields, wrong_types_are_named_with_their_path) {
  EXPECT_EQ(refused_with(R"("stream": 1)").param, "stream");
  EXPECT_EQ(refused_with(R"("stream_options": true)").param, "stream_options");
  EXPECT_EQ(refused_with(R"("stream_options": {"include_usage": 1})").param,
            "stream_options.include_usage");
  EXPECT_EQ(refused_with(R"("model": 1)").param, "model");
}

TEST(ParseRequest, a_body_that_is_no_object_is_invalid_json) {
  for (const char* body : {"", "{:", "[]", "null", "\"x\"", "{\"a\":\xff}", "{}{}"}) {
    EXPECT_EQ(refused(Dialect::kChat, body).kind, ErrorKind::kInvalidJson) << body;
  }
  std::string deep = R"({"prompt": "x", "a": )" + std::string(200, '[') + std::string(200, ']');
  EXPECT_EQ(refused(Dialect::kLlama, deep + "}").kind, ErrorKind::kInvalidJson);
}

TEST(ParseRequest, a_body_too_large_is_refused_unread) {
  const std::string body(kBodyBytesMax + 1, ' ');
  EXPECT_EQ(refused(Dialect::kChat, body).kind, ErrorKind::kRequestTooLarge);
}

}  // namespace
}  // namespace salvage::api
