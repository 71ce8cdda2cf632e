// Goal: blocks that Anthropic's clients put together again. Method: events in, each event's JSON
// out; whole transcripts stand in tests/golden/api/.

#include "api/anthropic/messages_answer.h"

#include "api/test_answer.h"

namespace salvage::api {
namespace {

const AnswerInfo kInfo = test_info(Dialect::kMessages);

std::string events_of(const std::string& bytes) {
  std::string names;
  for (const SseFrame& frame : frames_of(bytes)) {
    if (!frame.event.empty()) names += frame.event + " ";
  }
  return names;
}

const std::vector<AnswerEvent> kFull = {
    Accepted{10},
    AnswerDelta{.reasoning = "hm"},
    AnswerDelta{.text = "I look."},
    AnswerDelta{.calls = {{0, "t0", "f", ""}}},
    AnswerDelta{.calls = {{0, "", "", "{\"a\":1}"}, {1, "t1", "g", ""}}},
    finished(StopReason::kEndToken),
};

TEST(MessagesStream, blocks_start_and_stop_one_after_another) {
  const std::string bytes = streamed(kInfo, kFull);
  EXPECT_EQ(events_of(bytes),
            "message_start "
            "content_block_start content_block_delta content_block_delta content_block_stop "
            "content_block_start content_block_delta content_block_stop "
            "content_block_start content_block_delta content_block_stop "
            "content_block_start content_block_delta content_block_stop "
            "message_delta message_stop ");
  EXPECT_EQ(bytes.find("[DONE]"), std::string::npos);
  const auto data = data_of(bytes);
  EXPECT_EQ(to_line(data[3]),
            R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta",)"
            R"("signature":""}})");
  EXPECT_EQ(to_line(data[8]["content_block"]),
            R"({"type":"tool_use","id":"t0","name":"f","input":{}})");
  EXPECT_EQ(data[12]["delta"]["partial_json"], "{}");
}

TEST(MessagesStream, input_tokens_are_those_that_were_not_cached) {
  const auto data = data_of(streamed(kInfo, kFull));
  EXPECT_EQ(to_line(data.front()["message"]["usage"]),
            R"({"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,)"
            R"("output_tokens":0})");
  EXPECT_EQ(to_line(data[data.size() - 2]["usage"]),
            R"({"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,)"
            R"("output_tokens":3})");
}

TEST(MessagesStream, each_end_has_its_reason) {
  const std::pair<StopReason, const char*> reasons[] = {
      {StopReason::kEndToken, "end_turn"},      {StopReason::kStopText, "stop_sequence"},
      {StopReason::kTokenLimit, "max_tokens"},  {StopReason::kTimeLimit, "max_tokens"},
      {StopReason::kContextFull, "max_tokens"},
  };
  for (const auto& [reason, name] : reasons) {
    Finished end = finished(reason);
    end.stop_text = "###";
    const auto data = data_of(streamed(kInfo, {Accepted{10}, AnswerDelta{.text = "a"}, end}));
    const Json delta = data[data.size() - 2]["delta"];
    EXPECT_EQ(delta["stop_reason"], name);
    EXPECT_EQ(delta["stop_sequence"],
              reason == StopReason::kStopText ? Json("###") : Json(nullptr));
    EXPECT_EQ(whole(kInfo, {end})["stop_reason"], name);
  }
  EXPECT_EQ(whole(kInfo, kFull)["stop_reason"], "tool_use");
}

TEST(MessagesStream, a_failure_is_an_error_event_and_the_last) {
  const std::string bytes =
      streamed(kInfo, {Accepted{10}, Failed{{.kind = ErrorKind::kNodeLost, .message = "gone"}}});
  EXPECT_TRUE(bytes.ends_with(
      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":"
      "\"gone\"},\"request_id\":\"r\"}\n\n"))
      << bytes;
}

TEST(MessagesWhole, a_calls_input_is_an_object_whatever_the_model_wrote) {
  const Json json =
      whole(kInfo,
            {AnswerDelta{.calls = {{0, "a", "f", "{\"b\":[1]}"}}},
             AnswerDelta{.calls = {{1, "b", "g", "not json"}}},
             AnswerDelta{.calls = {{2, "c", "h", "[1]"}}},
             AnswerDelta{.calls = {{3, "d", "i", std::string(5000, '[') + std::string(5000, ']')}}},
             finished(StopReason::kEndToken)});
  EXPECT_EQ(to_line(json["content"][0]["input"]), R"({"b":[1]})");
  EXPECT_EQ(to_line(json["content"][1]["input"]), "{}");
  EXPECT_EQ(to_line(json["content"][2]["input"]), "{}");
  EXPECT_EQ(to_line(json["content"][3]["input"]), "{}");
}

TEST(CountTokens, body) {
  EXPECT_EQ(count_tokens_body(14), R"({"input_tokens":14})");
}

}  // namespace
}  // namespace salvage::api
