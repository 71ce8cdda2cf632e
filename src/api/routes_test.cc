// Goal: whatever base address a client was given, it finds its endpoint or reads where that is.
// Method: request lines as clients send them.

#include "api/routes.h"

#include <set>

#include <gtest/gtest.h>

#include "api/limits.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

Route route_of(std::string_view method, std::string_view target) {
  const RouteAnswer answer = match_route({.method = method, .target = target});
  EXPECT_TRUE(answer.match) << method << " " << target << ": " << answer.match.error().message;
  return answer.match ? answer.match->route : Route::kMetrics;
}

ApiError error_of(std::string_view method, std::string_view target) {
  const RouteAnswer answer = match_route({.method = method, .target = target});
  EXPECT_FALSE(answer.match) << method << " " << target;
  return answer.match ? ApiError{} : answer.match.error();
}

TEST(Routes, every_endpoint_answers_with_and_without_v1) {
  const std::pair<std::string, Route> posts[] = {
      {"/chat/completions", Route::kChatCompletions},
      {"/chat/completions/input_tokens", Route::kChatInputTokens},
      {"/completions", Route::kCompletions},
      {"/responses", Route::kResponses},
      {"/responses/input_tokens", Route::kResponsesInputTokens},
      {"/messages", Route::kMessages},
      {"/messages/count_tokens", Route::kCountTokens},
      {"/completion", Route::kLlamaCompletion},
      {"/tokenize", Route::kTokenize},
      {"/detokenize", Route::kDetokenize},
      {"/apply-template", Route::kApplyTemplate},
  };
  for (const auto& [path, route] : posts) {
    EXPECT_EQ(route_of("POST", path), route);
    EXPECT_EQ(route_of("POST", "/v1" + path), route);
  }
  const std::pair<std::string, Route> gets[] = {
      {"/health", Route::kHealth},   {"/models", Route::kModels},   {"/props", Route::kProps},
      {"/slots", Route::kSlots},     {"/metrics", Route::kMetrics}, {"/requests", Route::kRequests},
      {"/cluster", Route::kCluster},
  };
  for (const auto& [path, route] : gets) {
    EXPECT_EQ(route_of("GET", path), route);
    EXPECT_EQ(route_of("GET", "/v1" + path), route);
  }
}

TEST(Routes, odd_base_addresses_lead_to_the_same_place) {
  for (const char* target : {"/v1/messages?beta=true", "/v1/v1/messages", "//v1//messages/",
                             "/v1/messages#x", "///messages", "/v1/v1/v1/messages?a=/b"}) {
    EXPECT_EQ(route_of("POST", target), Route::kMessages) << target;
  }
}

TEST(Routes, head_is_get_without_a_body) {
  const RouteAnswer answer = match_route({.method = "HEAD", .target = "/"});
  ASSERT_TRUE(answer.match);
  EXPECT_EQ(answer.match->route, Route::kPage);
  EXPECT_TRUE(answer.match->head);
  EXPECT_FALSE(match_route({.method = "GET", .target = "/health"}).match->head);
}

TEST(Routes, a_model_is_named_by_all_that_follows) {
  const RouteAnswer answer =
      match_route({.method = "GET", .target = "/v1/models/org%2Fname/x:Q4%20a%zz%4"});
  ASSERT_TRUE(answer.match);
  EXPECT_EQ(answer.match->route, Route::kModel);
  EXPECT_EQ(answer.match->argument, "org/name/x:Q4 a%zz%4");
}

TEST(Routes, a_request_is_ended_by_its_id) {
  const RouteAnswer answer = match_route({.method = "DELETE", .target = "/v1/requests/req_1%20a"});
  ASSERT_TRUE(answer.match);
  EXPECT_EQ(answer.match->route, Route::kRequest);
  EXPECT_EQ(answer.match->argument, "req_1 a");
  EXPECT_EQ(error_of("GET", "/v1/requests/req_1").allow, "DELETE");
  EXPECT_EQ(error_of("DELETE", "/v1/requests").allow, "GET, HEAD");
}

TEST(Routes, every_route_has_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kRouteCount; ++i) names.insert(route_name(static_cast<Route>(i)));
  EXPECT_EQ(names.size(), kRouteCount);
  EXPECT_EQ(route_name(Route::kTokenize), "/tokenize");
  EXPECT_EQ(route_name(Route::kMessages), "/v1/messages");
}

TEST(Routes, only_health_and_the_page_are_public) {
  for (const char* target : {"/health", "/v1/health", "/", "/index.html", "/assets/a.js"}) {
    EXPECT_TRUE(match_route({.method = "GET", .target = target}).match->is_public) << target;
  }
  for (const char* target :
       {"/v1/models", "/models/x", "/props", "/slots", "/metrics", "/v1/requests", "/v1/cluster"}) {
    EXPECT_FALSE(match_route({.method = "GET", .target = target}).match->is_public) << target;
  }
  EXPECT_FALSE(match_route({.method = "POST", .target = "/tokenize"}).match->is_public);
}

TEST(Routes, errors_wear_the_dress_of_the_endpoint) {
  const auto dress = [](std::string_view target, bool anthropic = false) {
    return match_route({.method = "PUT", .target = target, .has_anthropic_version = anthropic})
        .dress;
  };
  EXPECT_EQ(dress("/v1/messages"), Dress::kAnthropic);
  EXPECT_EQ(dress("/v1/messages/batches"), Dress::kAnthropic);
  EXPECT_EQ(dress("/v1/models"), Dress::kOpenAi);
  EXPECT_EQ(dress("/v1/models", true), Dress::kAnthropic);
  EXPECT_EQ(dress("/v1/models/x", true), Dress::kAnthropic);
  EXPECT_EQ(dress("/v1/chat/completions", true), Dress::kOpenAi);
  EXPECT_EQ(dress("/tokenize"), Dress::kLlama);
  EXPECT_EQ(dress("/nothing"), Dress::kOpenAi);
}

TEST(Routes, a_wrong_method_is_told_the_right_one) {
  const ApiError error = error_of("GET", "/v1/chat/completions");
  EXPECT_EQ(error.kind, ErrorKind::kMethodNotAllowed);
  EXPECT_EQ(error.allow, "POST");
  EXPECT_EQ(error_of("POST", "/v1/models").allow, "GET, HEAD");
  EXPECT_EQ(error_of("HEAD", "/v1/messages").allow, "POST");
}

TEST(Routes, an_unknown_path_gets_a_hint) {
  EXPECT_EQ(error_of("POST", "/v1/chat/completion").hint, "did you mean /v1/chat/completions?");
  EXPECT_EQ(error_of("POST", "/openai/v1/chat/completions").hint,
            "did you mean /v1/chat/completions?");
  EXPECT_EQ(error_of("GET", "/api/v1/models").hint, "did you mean /v1/models?");
  EXPECT_EQ(error_of("POST", "/v1/tokenise").hint, "did you mean /tokenize?");
  const ApiError far = error_of("GET", "/wp-admin.php");
  EXPECT_EQ(far.kind, ErrorKind::kUnknownUrl);
  EXPECT_EQ(far.hint, "");
  EXPECT_EQ(far.message, "nothing is served at \"/wp-admin.php\"");
}

TEST(Routes, what_others_offer_and_we_do_not_is_said_so) {
  for (const char* target : {"/v1/embeddings", "/v1/audio/speech", "/v2/rerank", "/slots/0",
                             "/v1/chat/completions/control", "/v1/responses/resp_1", "/infill"}) {
    EXPECT_EQ(error_of("POST", target).kind, ErrorKind::kNotSupported) << target;
  }
  EXPECT_EQ(error_of("POST", "/v1/audiophile").kind, ErrorKind::kUnknownUrl);
}

TEST(Routes, garbage_is_an_unknown_path) {
  EXPECT_EQ(error_of("GET", "").kind, ErrorKind::kUnknownUrl);
  EXPECT_EQ(error_of("GET", "http://elsewhere/").kind, ErrorKind::kUnknownUrl);
  EXPECT_EQ(error_of("GET", "/" + std::string(kPathBytesMax, 'a')).kind, ErrorKind::kUnknownUrl);
}

TEST(Quote, what_is_quoted_is_short_and_printable) {
  EXPECT_EQ(in_quotes("a\n\"b\""), "\"a??b?\"");
  EXPECT_EQ(in_quotes("x\xff"), "\"x\"");
  EXPECT_EQ(in_quotes(std::string(100, 'a')), '"' + std::string(kQuotedBytesMax, 'a') + "...\"");
  // 59 letters and a character of three bytes: none of it is left.
  EXPECT_EQ(in_quotes(std::string(59, 'a') + "\xE4\xB8\xAD" + "b"),
            '"' + std::string(59, 'a') + "...\"");
}

}  // namespace
}  // namespace salvage::api
