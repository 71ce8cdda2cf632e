// Goal: each fault is the same fault in every dress, and says truly whether to try again. Method:
// the whole table, then bodies and headers of single errors, byte by byte.

#include "api/errors.h"

#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salvage::api {
namespace {

std::map<std::string, std::string> headers_of(const ErrorAnswer& answer) {
  return {answer.headers.begin(), answer.headers.end()};
}

TEST(Errors, the_table_is_in_the_order_of_its_kinds_and_whole) {
  std::set<std::string_view> codes;
  int index = 0;
  for (const ErrorFacts& facts : all_error_facts()) {
    EXPECT_EQ(static_cast<int>(facts.kind), index++);
    codes.insert(facts.code);
    EXPECT_GE(facts.status, 400) << facts.code;
    EXPECT_FALSE(facts.openai_type.empty() || facts.llama_type.empty() ||
                 facts.anthropic_type.empty() || facts.meaning.empty())
        << facts.code;
    EXPECT_EQ(facts.retry == Retry::kLater, facts.retry_after_seconds > 0) << facts.code;
  }
  // A method that isn't and a feature that isn't share a code; their status tells them apart.
  EXPECT_EQ(codes.size(), all_error_facts().size() - 1);
}

TEST(Errors, openai_gets_an_object_with_all_four_fields) {
  const ApiError error{.kind = ErrorKind::kInvalidValue, .message = "bad", .param = "top_p"};
  const ErrorAnswer answer = render_error(error, Dress::kOpenAi, "r1");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body,
            R"({"error":{"message":"bad","type":"invalid_request_error","param":"top_p",)"
            R"("code":"invalid_value"},"src":"salvage"})");
  EXPECT_TRUE(answer.headers.empty());
  EXPECT_EQ(to_line(error_json({.message = "x"}, Dress::kOpenAi, "")),
            R"({"error":{"message":"x","type":"server_error","param":null,)"
            R"("code":"internal_error"},"src":"salvage"})");
}

TEST(Errors, anthropic_has_its_own_types_status_and_the_request) {
  const ErrorAnswer answer =
      render_error({.kind = ErrorKind::kModelLoading, .message = "wait"}, Dress::kAnthropic, "r1");
  EXPECT_EQ(answer.status, 529);
  EXPECT_EQ(answer.body, R"({"type":"error","error":{"type":"overloaded_error",)"
                         R"("message":"wait"},"request_id":"r1"})");
}

TEST(Errors, llama_cpp_has_a_number_for_a_code) {
  const ErrorAnswer answer =
      render_error({.kind = ErrorKind::kInvalidApiKey, .message = "no"}, Dress::kLlama, "r1");
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.body, R"({"error":{"code":401,"message":"no","type":"authentication_error"}})");
}

TEST(Errors, a_prompt_too_long_says_both_numbers_in_the_words_that_each_client_knows) {
  const ApiError error = context_length_exceeded({.prompt_tokens = 5000, .context_tokens = 4096});
  EXPECT_EQ(error_json(error, Dress::kOpenAi, "")["error"]["message"],
            "This model's maximum context length is 4096 tokens. However, your request has 5000 "
            "tokens. Please shorten it.");
  EXPECT_EQ(error_json(error, Dress::kAnthropic, "")["error"]["message"],
            "prompt is too long: 5000 tokens > 4096 maximum");
  const Json llama = error_json(error, Dress::kLlama, "")["error"];
  EXPECT_EQ(llama["type"], "exceed_context_size_error");
  EXPECT_EQ(llama["n_prompt_tokens"], 5000);
  EXPECT_EQ(llama["n_ctx"], 4096);
}

TEST(Errors, who_may_try_again_is_told_when_and_who_may_not_is_told_so) {
  const auto loading = render_error({.kind = ErrorKind::kModelLoading}, Dress::kOpenAi, "");
  EXPECT_EQ(headers_of(loading), (std::map<std::string, std::string>{{"retry-after", "10"}}));
  const auto known =
      render_error({.kind = ErrorKind::kQueueFull, .retry_after_seconds = 42}, Dress::kOpenAi, "");
  EXPECT_EQ(headers_of(known).at("retry-after"), "42");
  const auto at_once =
      render_error({.kind = ErrorKind::kQueueFull, .retry_after_seconds = 0}, Dress::kOpenAi, "");
  EXPECT_EQ(headers_of(at_once).at("retry-after"), "1") << "0 would be a loop";
  for (const ErrorKind kind : {ErrorKind::kQuotaUsedUp, ErrorKind::kNotSupported}) {
    const auto never = render_error({.kind = kind}, Dress::kOpenAi, "");
    EXPECT_EQ(headers_of(never), (std::map<std::string, std::string>{{"x-should-retry", "false"}}));
  }
}

TEST(Errors, a_method_that_is_not_allowed_says_which_are) {
  const auto answer = render_error({.kind = ErrorKind::kMethodNotAllowed, .allow = "GET, HEAD"},
                                   Dress::kOpenAi, "");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(headers_of(answer).at("allow"), "GET, HEAD");
}

TEST(Errors, codes_from_below_keep_what_the_caller_can_do) {
  EXPECT_EQ(api_error(Error(ErrorCode::kUnavailable, "gone")).kind, ErrorKind::kNodeLost);
  EXPECT_EQ(api_error(Error(ErrorCode::kUnavailable, "gone")).message, "gone");
  EXPECT_EQ(api_error(Error(ErrorCode::kResourceExhausted, "")).kind, ErrorKind::kNoCapacity);
  EXPECT_EQ(api_error(Error(ErrorCode::kUnsupported, "")).kind, ErrorKind::kNotSupported);
  EXPECT_EQ(api_error(Error(ErrorCode::kCorrupt, "")).kind, ErrorKind::kInternal);
}

TEST(Errors, a_message_with_broken_characters_is_still_json) {
  const auto answer = render_error({.message = "x\xff"}, Dress::kOpenAi, "\xfe");
  EXPECT_TRUE(Json::accept(answer.body));
}

}  // namespace
}  // namespace salvage::api
