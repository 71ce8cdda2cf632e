// Goal: a response's events are numbered, every item is added and done, and the last event repeats
// what they said. Method: events in, types out; whole transcripts stand in tests/golden/api/.

#include "api/openai/responses_answer.h"

#include "api/openai/response_items.h"
#include "api/test_answer.h"

namespace salvage::api {
namespace {

std::string types_of(const std::vector<Json>& data) {
  std::string types;
  for (const Json& json : data) {
    types += json["type"].get<std::string>().substr(std::string("response.").size()) + " ";
  }
  return types;
}

const std::vector<AnswerEvent> kFull = {
    Accepted{10},
    AnswerDelta{.reasoning = "hm"},
    AnswerDelta{.text = "I look."},
    AnswerDelta{.calls = {{0, "c0", "f", "{\"a\":1}"}}},
    AnswerDelta{.calls = {{1, "c1", "patch", "{\"input\":\"*** \\\"x\\\"\"}"}}},
    finished(StopReason::kEndToken),
};

AnswerInfo info_with_patch() {
  AnswerInfo info = test_info(Dialect::kResponses);
  info.custom_tools = {"patch"};
  return info;
}

TEST(ResponsesStream, items_come_one_after_another_and_are_numbered_through) {
  const auto data = data_of(streamed(info_with_patch(), kFull));
  EXPECT_EQ(types_of(data),
            "created in_progress "
            "output_item.added content_part.added reasoning_text.delta reasoning_text.done "
            "content_part.done output_item.done "
            "output_item.added content_part.added output_text.delta output_text.done "
            "content_part.done output_item.done "
            "output_item.added function_call_arguments.delta function_call_arguments.done "
            "output_item.done "
            "output_item.added custom_tool_call_input.delta custom_tool_call_input.done "
            "output_item.done "
            "completed ");
  for (std::size_t i = 0; i < data.size(); ++i) EXPECT_EQ(data[i]["sequence_number"], i);
}

TEST(ResponsesStream, every_event_is_named_as_its_type_and_none_is_done) {
  for (const SseFrame& frame : frames_of(streamed(info_with_patch(), kFull))) {
    if (!frame.comment.empty()) continue;
    EXPECT_EQ(frame.event, Json::parse(frame.data)["type"].get<std::string>());
    EXPECT_NE(frame.data, "[DONE]");
  }
}

TEST(ResponsesStream, the_last_event_holds_the_items_that_were_done) {
  const auto data = data_of(streamed(info_with_patch(), kFull));
  Json done = Json::array();
  for (const Json& json : data) {
    if (json["type"] == "response.output_item.done") done.push_back(json["item"]);
  }
  EXPECT_EQ(data.back()["response"]["output"], done);
  EXPECT_EQ(done[3]["type"], "custom_tool_call");
  EXPECT_EQ(done[3]["input"], "*** \"x\"");
  EXPECT_EQ(whole(info_with_patch(), kFull), data.back()["response"]);
  EXPECT_EQ(to_line(data.back()["response"]["usage"]),
            R"({"input_tokens":10,"input_tokens_details":{"cached_tokens":4,)"
            R"("cache_write_tokens":0},"output_tokens":3,)"
            R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":13})");
}

TEST(ResponsesStream, a_custom_call_that_is_no_json_is_given_as_it_is) {
  const auto json = whole(info_with_patch(), {AnswerDelta{.calls = {{0, "c", "patch", "*** x"}}},
                                              finished(StopReason::kEndToken)});
  EXPECT_EQ(json["output"][0]["input"], "*** x");
}

TEST(ResponsesStream, an_answer_that_was_cut_is_incomplete) {
  const auto data =
      data_of(streamed(test_info(Dialect::kResponses), {Accepted{10}, AnswerDelta{.text = "a"},
                                                        finished(StopReason::kTokenLimit)}));
  EXPECT_EQ(data.back()["type"], "response.incomplete");
  const Json& response = data.back()["response"];
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
  EXPECT_EQ(data[data.size() - 2]["item"]["status"], "incomplete");
}

TEST(ResponsesStream, a_failure_is_a_failed_response) {
  const auto data = data_of(streamed(test_info(Dialect::kResponses),
                                     {Accepted{10}, AnswerDelta{.text = "a"},
                                      Failed{{.kind = ErrorKind::kNodeLost, .message = "gone"}}}));
  EXPECT_EQ(data.back()["type"], "response.failed");
  EXPECT_EQ(data.back()["response"]["status"], "failed");
  EXPECT_EQ(to_line(data.back()["response"]["error"]),
            R"({"code":"server_error","message":"gone"})")
      << "a code that the official clients know";
  EXPECT_EQ(response_error_code(ErrorKind::kQueueFull), "rate_limit_exceeded");
  EXPECT_EQ(response_error_code(ErrorKind::kContextLengthExceeded), "invalid_prompt");
}

TEST(ResponsesStream, logprobs_stand_with_the_text) {
  AnswerInfo info = test_info(Dialect::kResponses);
  info.has_logprobs = true;
  const auto data = data_of(streamed(
      info,
      {Accepted{10}, AnswerDelta{.text = "a", .logprobs = {{.id = 1, .bytes = "a", .logprob = -1}}},
       finished(StopReason::kEndToken)}));
  ASSERT_EQ(data[4]["type"], "response.output_text.delta");
  EXPECT_EQ(data[4]["logprobs"].size(), 1U);
  EXPECT_EQ(data.back()["response"]["output"][0]["content"][0]["logprobs"].size(), 1U);
}

TEST(ResponsesStream, logprobs_of_text_that_is_held_back_come_with_it) {
  AnswerInfo info = test_info(Dialect::kResponses);
  info.has_logprobs = true;
  const auto token = [](TokenId id) { return TokenLogprob{.id = id, .bytes = "a", .logprob = -1}; };
  const std::vector<AnswerEvent> events = {Accepted{10},
                                           AnswerDelta{.reasoning = "hm", .logprobs = {token(1)}},
                                           AnswerDelta{.logprobs = {token(2)}},
                                           AnswerDelta{.text = "aa", .logprobs = {token(3)}},
                                           AnswerDelta{.text = "a", .logprobs = {token(4)}},
                                           finished(StopReason::kEndToken)};
  std::vector<std::size_t> counts;
  for (const Json& json : data_of(streamed(info, events))) {
    if (json["type"] == "response.output_text.delta") counts.push_back(json["logprobs"].size());
  }
  EXPECT_EQ(counts, (std::vector<std::size_t>{2, 1})) << "a thought's are nobody's";
  EXPECT_EQ(whole(info, events)["output"][1]["content"][0]["logprobs"].size(), 3U);
}

TEST(ResponsesWhole, repeats_what_it_was_asked) {
  AnswerInfo info = test_info(Dialect::kResponses);
  info.response_echo = {{"temperature", 0.5}};
  EXPECT_EQ(whole(info, {finished(StopReason::kEndToken)})["temperature"], 0.5);
}

TEST(InputTokens, body) {
  EXPECT_EQ(input_tokens_body(11), R"({"object":"response.input_tokens","input_tokens":11})");
}

}  // namespace
}  // namespace salvage::api
