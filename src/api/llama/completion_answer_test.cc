// Goal: what llama.cpp's own clients read. Method: events in, JSON out; whole transcripts stand in
// tests/golden/api/.

#include "api/llama/completion_answer.h"

#include "api/test_answer.h"
#include "api/test_request.h"

namespace salvage::api {
namespace {

const AnswerInfo kInfo = test_info(Dialect::kLlama);

TEST(LlamaRequest, takes_what_its_clients_send) {
  const auto request = taken(Dialect::kLlama, R"({"prompt": "用一句话解释天空为什么是蓝色的",
      "n_predict": 64, "temperature": 0.7, "n_probs": 2, "post_sampling_probs": true})");
  EXPECT_EQ(request.prompts, (std::vector<Prompt>{{"用一句话解释天空为什么是蓝色的"}}));
  EXPECT_EQ(request.tokens_max, 64U);
  EXPECT_EQ(request.sampler.temperature, 0.7F);
  EXPECT_EQ(request.logprobs, 2U);
  EXPECT_TRUE(request.probabilities_after_sampling);
  EXPECT_EQ(taken(Dialect::kLlama, R"({"prompt": "x", "n_probs": 0})").logprobs, std::nullopt);
}

TEST(LlamaStream, counts_tokens_and_ends_without_done) {
  const std::string bytes =
      streamed(kInfo, {Accepted{10}, AnswerDelta{.text = "a", .tokens = {7}},
                       AnswerDelta{.tokens = {8, 9}}, finished(StopReason::kEndToken)});
  EXPECT_EQ(bytes.find("[DONE]"), std::string::npos);
  const auto data = data_of(bytes);
  ASSERT_EQ(data.size(), 3U);
  EXPECT_EQ(to_line(data[0]), R"({"index":0,"content":"a","tokens":[7],"stop":false,"id_slot":-1,)"
                              R"("tokens_predicted":1,"tokens_evaluated":10})");
  EXPECT_EQ(data[1]["tokens_predicted"], 3);
  EXPECT_EQ(data[2]["stop"], true);
  EXPECT_EQ(data[2]["content"], "");
}

TEST(LlamaStream, each_end_has_its_type) {
  const std::pair<StopReason, const char*> reasons[] = {
      {StopReason::kEndToken, "eos"},      {StopReason::kStopText, "word"},
      {StopReason::kTokenLimit, "limit"},  {StopReason::kTimeLimit, "limit"},
      {StopReason::kContextFull, "limit"},
  };
  for (const auto& [reason, name] : reasons) {
    Finished end = finished(reason);
    end.stop_text = "###";
    const Json json = whole(kInfo, {end});
    EXPECT_EQ(json["stop_type"], name);
    EXPECT_EQ(json["stopping_word"], reason == StopReason::kStopText ? "###" : "");
    EXPECT_EQ(json["truncated"], reason == StopReason::kContextFull);
  }
}

TEST(LlamaWhole, holds_what_the_caller_knows) {
  AnswerInfo info = kInfo;
  info.prompts = {"P"};
  info.settings = {{"top_k", 40}};
  info.return_tokens = true;
  Finished end = finished(StopReason::kEndToken);
  end.sequence = 3;
  const Json json = whole(info, {AnswerDelta{.text = "a\nb", .tokens = {7, 8}}, end});
  EXPECT_EQ(json["prompt"], "P");
  EXPECT_EQ(json["generation_settings"]["top_k"], 40);
  EXPECT_EQ(to_line(json["tokens"]), "[7,8]");
  EXPECT_EQ(json["has_new_line"], true);
  EXPECT_EQ(json["id_slot"], 3);
  EXPECT_EQ(json["tokens_cached"], 13);
  EXPECT_TRUE(whole(kInfo, {AnswerDelta{.text = "a", .tokens = {7}}, end})["tokens"].empty())
      << "only if asked for";
}

TEST(LlamaWhole, only_the_fields_that_were_asked_for) {
  AnswerInfo info = kInfo;
  info.response_fields = {"content", "timings/predicted_n", "nothing", "content/x", "/", ""};
  const Json json = whole(info, {AnswerDelta{.text = "a"}, finished(StopReason::kEndToken)});
  EXPECT_EQ(to_line(json), R"({"content":"a","timings/predicted_n":3})");
}

TEST(LlamaWhole, several_prompts_are_a_list) {
  AnswerInfo info = kInfo;
  info.choices = 2;
  info.prompts = {"A", "B"};
  const Json json =
      whole(info, {AnswerDelta{.choice = 1, .text = "b"}, finished(StopReason::kEndToken, 1),
                   finished(StopReason::kEndToken, 0)});
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[1]["content"], "b");
  EXPECT_EQ(json[1]["prompt"], "B");
  EXPECT_EQ(json[1]["index"], 1);
}

TEST(LlamaProbabilities, are_logarithms_or_after_sampling_plain) {
  AnswerInfo info = kInfo;
  const AnswerDelta delta{
      .text = "a",
      .tokens = {7},
      .logprobs = {{.id = 7, .bytes = "a", .logprob = 0, .top = {{7, "a", 0}, {8, "b", -1}}}}};
  const auto before = data_of(streamed(info, {Accepted{1}, delta}));
  EXPECT_EQ(to_line(before[0]["completion_probabilities"]),
            R"([{"id":7,"token":"a","bytes":[97],"logprob":0.0,"top_logprobs":[)"
            R"({"id":7,"token":"a","bytes":[97],"logprob":0.0},)"
            R"({"id":8,"token":"b","bytes":[98],"logprob":-1.0}]}])");
  info.probabilities_after_sampling = true;
  const Json after = whole(info, {delta, finished(StopReason::kEndToken)});
  EXPECT_EQ(to_line(after["completion_probabilities"][0]["top_probs"][1]),
            R"({"id":8,"token":"b","bytes":[98],"prob":0.367879441})");
}

TEST(LlamaStream, a_failure_has_a_number_for_a_code) {
  const std::string bytes =
      streamed(kInfo, {Accepted{10}, Failed{{.kind = ErrorKind::kNodeLost, .message = "gone"}}});
  EXPECT_TRUE(
      bytes.ends_with("data: {\"error\":{\"code\":502,\"message\":\"gone\",\"type\":"
                      "\"server_error\"}}\n\n"))
      << bytes;
}

}  // namespace
}  // namespace salvage::api
