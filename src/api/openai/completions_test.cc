// Goal: the older completions, way in and way out: echo, several prompts, logprobs as parallel
// lists. Method: requests and events; whole transcripts stand in tests/golden/api/.

#include "api/openai/completions_answer.h"
#include "api/test_answer.h"
#include "api/test_request.h"

namespace salvage::api {
namespace {

TEST(CompletionsRequest, logprobs_are_a_number_and_none_are_not_zero) {
  const auto logprobs = [](std::string_view fields) {
    return taken(Dialect::kCompletions, R"({"prompt": "x", )" + std::string(fields) + "}").logprobs;
  };
  EXPECT_EQ(logprobs(R"("logprobs": 0)"), 0U);
  EXPECT_EQ(logprobs(R"("logprobs": 5)"), 5U);
  EXPECT_EQ(logprobs(R"("logprobs": null)"), std::nullopt);
  EXPECT_EQ(logprobs(R"("n_probs": 0)"), std::nullopt);
  EXPECT_EQ(refused(Dialect::kCompletions, R"({"prompt": "x", "logprobs": true})").param,
            "logprobs");
}

TEST(CompletionsRequest, what_is_not_done_is_said) {
  for (const char* fields : {R"("suffix": "b")", R"("best_of": 2)"}) {
    EXPECT_EQ(
        refused(Dialect::kCompletions, R"({"prompt": "x", )" + std::string(fields) + "}").kind,
        ErrorKind::kNotSupported)
        << fields;
  }
  taken(Dialect::kCompletions, R"({"prompt": "x", "suffix": "", "best_of": 1, "echo": true})");
  taken(Dialect::kCompletions, R"({"prompt": "x", "suffix": null, "n": 2, "best_of": 2})");
  taken(Dialect::kCompletions, R"({"prompt": "x", "echo": true, "logprobs": 1, "max_tokens": 0})");
}

TEST(CompletionsStream, the_prompt_of_each_answer_comes_first_if_asked_for) {
  AnswerInfo info = test_info(Dialect::kCompletions);
  info.choices = 2;
  info.echo = true;
  info.prompts = {"A", "B"};
  const auto data = data_of(
      streamed(info, {Accepted{10}, AnswerDelta{.choice = 1, .text = "b"},
                      finished(StopReason::kEndToken, 0), finished(StopReason::kEndToken, 1)}));
  ASSERT_EQ(data.size(), 5U);
  EXPECT_EQ(data[0]["choices"][0]["text"], "A");
  EXPECT_EQ(data[1]["choices"][0]["text"], "B");
  EXPECT_EQ(data[2]["choices"][0]["text"], "b");
  EXPECT_EQ(data[2]["choices"][0]["index"], 1);
  const Json json =
      whole(info, {AnswerDelta{.choice = 1, .text = "b"}, finished(StopReason::kEndToken, 0),
                   finished(StopReason::kTokenLimit, 1)});
  EXPECT_EQ(json["choices"][0]["text"], "A");
  EXPECT_EQ(json["choices"][1]["text"], "Bb");
  EXPECT_EQ(json["choices"][1]["finish_reason"], "length");
}

TEST(CompletionsStream, logprobs_are_lists_beside_each_other_and_offsets_go_on) {
  AnswerInfo info = test_info(Dialect::kCompletions);
  info.has_logprobs = true;
  const auto token = [](std::string bytes) {
    return TokenLogprob{
        .bytes = std::move(bytes), .logprob = -1, .top = {{1, "a", -1}, {2, "\xE5", -2}}};
  };
  const auto stream = AnswerStream::make(info);
  stream->take(Accepted{10});
  EXPECT_EQ(stream->take(AnswerDelta{.tokens = {1}, .logprobs = {token("\xE5")}}), "");
  const auto first = data_of(stream->take(AnswerDelta{.text = "天b",
                                                      .tokens = {2},
                                                      .logprobs = {token("\xA4\xA9"
                                                                         "b")}}));
  EXPECT_EQ(to_line(first[0]["choices"][0]["logprobs"]),
            R"({"tokens":["bytes:\\xe5","bytes:\\xa4\\xa9\\x62"],"token_logprobs":[-1.0,-1.0],)"
            R"("top_logprobs":[{"a":-1.0,"bytes:\\xe5":-2.0},{"a":-1.0,"bytes:\\xe5":-2.0}],)"
            R"("text_offset":[0,1]})");
  const auto second =
      data_of(stream->take(AnswerDelta{.text = "c", .tokens = {3}, .logprobs = {token("c")}}));
  EXPECT_EQ(to_line(second[0]["choices"][0]["logprobs"]["text_offset"]), "[2]");
}

// As those who measure a text ask for it: no answer, but how likely the text was.
TEST(CompletionsStream, a_prompt_is_repeated_with_its_logprobs_the_first_of_which_is_not_known) {
  AnswerInfo info = test_info(Dialect::kCompletions);
  info.has_logprobs = true;
  info.echo = true;
  info.prompts = {"天b"};
  const EchoedPrompt prompt{
      .tokens = {{.id = 1, .bytes = "天", .has_logprob = false},
                 {.id = 2, .bytes = "b", .logprob = -2, .top = {{3, "c", -0.5}}}}};
  const char* const kLogprobs =
      R"({"tokens":["天","b"],"token_logprobs":[null,-2.0],"top_logprobs":[null,{"c":-0.5}],)"
      R"("text_offset":[0,1]})";
  const Json json = whole(info, {prompt, finished(StopReason::kTokenLimit)});
  EXPECT_EQ(json["choices"][0]["text"], "天b");
  EXPECT_EQ(to_line(json["choices"][0]["logprobs"]), kLogprobs);
  const AnswerDelta answer{
      .text = "d", .tokens = {4}, .logprobs = {{.id = 4, .bytes = "d", .logprob = -1}}};
  const auto data =
      data_of(streamed(info, {Accepted{2}, prompt, answer, finished(StopReason::kTokenLimit)}));
  ASSERT_EQ(data.size(), 3U);
  EXPECT_EQ(data[0]["choices"][0]["text"], "天b");
  EXPECT_EQ(to_line(data[0]["choices"][0]["logprobs"]), kLogprobs);
  EXPECT_EQ(to_line(data[1]["choices"][0]["logprobs"]["text_offset"]), "[2]");
}

TEST(CompletionsStream, silence_is_not_a_chunk) {
  const auto stream = AnswerStream::make(test_info(Dialect::kCompletions));
  stream->take(Accepted{10});
  EXPECT_EQ(stream->take(AnswerDelta{.tokens = {1}}), "");
}

}  // namespace
}  // namespace salvage::api
