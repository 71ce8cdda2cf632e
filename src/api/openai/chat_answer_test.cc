// Goal: chunks that the official clients put together again. Method: events in, each chunk's choice
// out; whole transcripts stand in tests/golden/api/.

#include "api/openai/chat_answer.h"

#include "api/test_answer.h"

namespace salvage::api {
namespace {

const AnswerInfo kInfo = test_info(Dialect::kChat);

// The deltas of a stream, one a line.
std::string deltas_of(const std::string& bytes) {
  std::string lines;
  for (const Json& json : data_of(bytes)) {
    for (const Json& choice : json["choices"]) lines += to_line(choice["delta"]) + "\n";
  }
  return lines;
}

TEST(ChatStream, a_call_has_id_and_name_once_and_then_arguments) {
  const std::string bytes =
      streamed(kInfo, {Accepted{10}, AnswerDelta{.calls = {{0, "c0", "f", ""}}},
                       AnswerDelta{.calls = {{0, "", "", "{\"a\""}}},
                       AnswerDelta{.calls = {{0, "", "", ":1}"}, {1, "c1", "g", ""}}},
                       finished(StopReason::kEndToken)});
  EXPECT_EQ(deltas_of(bytes),
            R"({"role":"assistant","content":""}
{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":""}}]}
{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}
{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}
{"tool_calls":[{"index":1,"id":"c1","type":"function","function":{"name":"g","arguments":""}}]}
{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}
{}
)");
  EXPECT_EQ(data_of(bytes).back()["choices"][0]["finish_reason"], "tool_calls");
}

TEST(ChatStream, each_end_has_its_reason) {
  const std::pair<StopReason, const char*> reasons[] = {
      {StopReason::kEndToken, "stop"},      {StopReason::kStopText, "stop"},
      {StopReason::kTokenLimit, "length"},  {StopReason::kTimeLimit, "length"},
      {StopReason::kContextFull, "length"},
  };
  for (const auto& [reason, name] : reasons) {
    const std::string bytes =
        streamed(kInfo, {Accepted{10}, AnswerDelta{.text = "a"}, finished(reason)});
    EXPECT_EQ(data_of(bytes).back()["choices"][0]["finish_reason"], name);
    EXPECT_TRUE(bytes.ends_with("data: [DONE]\n\n"));
    EXPECT_EQ(whole(kInfo, {finished(reason)})["choices"][0]["finish_reason"], name);
  }
}

TEST(ChatStream, logprobs_of_text_that_is_held_back_come_with_it_or_at_the_end) {
  AnswerInfo info = kInfo;
  info.has_logprobs = true;
  const auto token = [](TokenId id) {
    return TokenLogprob{.id = id, .bytes = "x", .logprob = -0.25F};
  };
  const auto stream = AnswerStream::make(info);
  stream->take(Accepted{10});
  EXPECT_EQ(stream->take(AnswerDelta{.tokens = {1}, .logprobs = {token(1)}}), "");
  const auto both =
      data_of(stream->take(AnswerDelta{.text = "xx", .tokens = {2}, .logprobs = {token(2)}}));
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(both[0]["choices"][0]["logprobs"]["content"].size(), 2U);
  EXPECT_EQ(to_line(both[0]["choices"][0]["logprobs"]["content"][0]),
            R"({"token":"x","logprob":-0.25,"bytes":[120],"top_logprobs":[]})");
  stream->take(AnswerDelta{.tokens = {3}, .logprobs = {token(3)}});
  const auto end = data_of(stream->take(finished(StopReason::kEndToken)));
  EXPECT_EQ(end[0]["choices"][0]["logprobs"]["content"].size(), 1U);
}

TEST(ChatStream, usage_is_a_chunk_without_choices_only_if_asked_for) {
  const std::vector<AnswerEvent> events = {Accepted{10}, AnswerDelta{.text = "a"},
                                           finished(StopReason::kEndToken)};
  for (const Json& json : data_of(streamed(kInfo, events))) {
    EXPECT_FALSE(json.contains("usage"));
    EXPECT_EQ(json["choices"].size(), 1U);
  }
  AnswerInfo info = kInfo;
  info.include_usage = true;
  const auto data = data_of(streamed(info, events));
  EXPECT_TRUE(data.front()["usage"].is_null());
  EXPECT_TRUE(data.back()["choices"].empty());
  EXPECT_EQ(to_line(data.back()["usage"]),
            R"({"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,)"
            R"("prompt_tokens_details":{"cached_tokens":4}})");
}

TEST(ChatStream, timings_come_at_the_end_and_with_tokens_if_given) {
  const auto data =
      data_of(streamed(kInfo, {Accepted{10}, AnswerDelta{.text = "a", .timings = Timings{}},
                               AnswerDelta{.text = "b"}, finished(StopReason::kEndToken)}));
  ASSERT_EQ(data.size(), 4U);
  EXPECT_TRUE(data[1].contains("timings"));
  EXPECT_FALSE(data[2].contains("timings"));
  EXPECT_EQ(to_line(data[3]["timings"]),
            R"({"cache_n":4,"prompt_n":6,"prompt_ms":60.0,"prompt_per_token_ms":10.0,)"
            R"("prompt_per_second":100.0,"predicted_n":3,"predicted_ms":1500.0,)"
            R"("predicted_per_token_ms":500.0,"predicted_per_second":2.0})");
}

TEST(ChatStream, a_failure_is_an_error_that_clients_raise_and_then_the_end) {
  const std::string bytes =
      streamed(kInfo, {Accepted{10}, AnswerDelta{.text = "a"},
                       Failed{{.kind = ErrorKind::kNodeLost, .message = "node pi-3 is gone"}}});
  EXPECT_TRUE(bytes.ends_with(
      "data: {\"error\":{\"message\":\"node pi-3 is gone\",\"type\":\"server_error\",\"param\":"
      "null,\"code\":\"node_lost\"},\"src\":\"salvage\"}\n\ndata: [DONE]\n\n"))
      << bytes;
}

TEST(ChatWhole, a_message_that_only_calls_has_no_content) {
  const Json json = whole(kInfo, {AnswerDelta{.reasoning = "hm", .calls = {{0, "c", "f", "{}"}}},
                                  finished(StopReason::kEndToken)});
  EXPECT_EQ(to_line(json["choices"][0]["message"]),
            R"({"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[)"
            R"({"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]})");
  EXPECT_EQ(to_line(whole(kInfo, {finished(StopReason::kEndToken)})["choices"][0]["message"]),
            R"({"role":"assistant","content":""})");
}

TEST(ChatWhole, the_engines_build_is_shown_if_known) {
  EXPECT_FALSE(whole(kInfo, {finished(StopReason::kEndToken)}).contains("system_fingerprint"));
  AnswerInfo info = kInfo;
  info.fingerprint = "b1";
  EXPECT_EQ(whole(info, {finished(StopReason::kEndToken)})["system_fingerprint"], "b1");
}

TEST(ChatUsage, tokens_of_reasoning_are_told_apart_where_they_are_known) {
  Finished end = finished(StopReason::kEndToken);
  end.usage.reasoning_tokens = 2;
  EXPECT_EQ(whole(kInfo, {end})["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
}

}  // namespace
}  // namespace salvage::api
