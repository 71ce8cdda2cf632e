// Goal: what holds for the answers of all dialects: one end, no half characters, failures that are
// seen, silence that isn't. Method: each dialect with the same events.

#include "api/answer.h"

#include <cmath>
#include <limits>

#include "api/sse.h"
#include "api/test_answer.h"
#include "api/test_request.h"

namespace salvage::api {
namespace {

constexpr Dialect kAllDialects[] = {Dialect::kChat, Dialect::kCompletions, Dialect::kResponses,
                                    Dialect::kMessages, Dialect::kLlama};

TEST(Answer, ends_once_whatever_still_comes) {
  for (const Dialect dialect : kAllDialects) {
    const auto stream = AnswerStream::make(test_info(dialect));
    stream->take(Accepted{10});
    stream->take(AnswerDelta{.text = "a"});
    EXPECT_FALSE(stream->ended());
    EXPECT_NE(stream->take(finished(StopReason::kEndToken)), "");
    EXPECT_TRUE(stream->ended());
    EXPECT_EQ(stream->take(AnswerDelta{.text = "b"}), "");
    EXPECT_EQ(stream->take(finished(StopReason::kTokenLimit)), "");
    EXPECT_EQ(stream->take(Failed{{.message = "late"}}), "");
  }
}

TEST(Answer, bytes_that_are_no_text_are_replaced_and_break_nothing) {
  for (const Dialect dialect : kAllDialects) {
    AnswerInfo info = test_info(dialect);
    info.has_logprobs = true;
    info.model = "m\xff";
    const TokenLogprob token{.id = 1, .bytes = "\xE4\xB8", .logprob = -0.5F, .top = {{2, "\xff"}}};
    const std::string bytes =
        streamed(info, {Accepted{10},
                        AnswerDelta{.text = "a\xff\xE4\xB8", .tokens = {1}, .logprobs = {token}},
                        finished(StopReason::kEndToken)});
    EXPECT_NE(bytes.find("a\xEF\xBF\xBD"), std::string::npos) << bytes;
    EXPECT_EQ(bytes.find('\xff'), std::string::npos);
    EXPECT_GE(data_of(bytes).size(), 2U);
  }
}

TEST(Answer, numbers_that_json_has_not_are_written_as_numbers) {
  for (const Dialect dialect : {Dialect::kChat, Dialect::kCompletions, Dialect::kLlama}) {
    AnswerInfo info = test_info(dialect);
    info.has_logprobs = true;
    const TokenLogprob token{.bytes = "a",
                             .logprob = -std::numeric_limits<float>::infinity(),
                             .top = {{1, "b", std::nanf("")}}};
    Finished end = finished(StopReason::kEndToken);
    end.timings.answer_ms = 0;
    end.timings.prompt_ms = std::numeric_limits<double>::infinity();
    const std::string bytes = streamed(
        info, {Accepted{10}, AnswerDelta{.text = "a", .tokens = {1}, .logprobs = {token}}, end});
    EXPECT_NE(bytes.find("-9999"), std::string::npos) << bytes;
    EXPECT_EQ(bytes.find("null,\"top"), std::string::npos) << bytes;
    EXPECT_NE(bytes.find("\"prompt_ms\":0"), std::string::npos) << bytes;
  }
}

TEST(Answer, the_first_bytes_come_before_the_first_token) {
  for (const Dialect dialect : kAllDialects) {
    const auto stream = AnswerStream::make(test_info(dialect));
    EXPECT_TRUE(stream->take(Accepted{10}).starts_with(kSsePing));
    EXPECT_NE(stream->ping(), "");
  }
  EXPECT_EQ(AnswerStream::make(test_info(Dialect::kChat))->ping(), ": ping\n\n");
  EXPECT_EQ(AnswerStream::make(test_info(Dialect::kMessages))->ping(),
            "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

TEST(Answer, waiting_and_reading_are_told_in_comments) {
  const auto stream = AnswerStream::make(test_info(Dialect::kChat));
  stream->take(Accepted{10});
  EXPECT_EQ(stream->take(Queued{2}), ": salvage {\"stage\":\"queued\",\"place\":2}\n\n");
  EXPECT_EQ(stream->take(PromptProgress{0, 2048, 512, 812, 300}),
            ": salvage {\"stage\":\"prefill\",\"choice\":0,\"done\":812,\"total\":2048,"
            "\"cached\":512,\"time_ms\":300}\n\n");
}

TEST(Answer, progress_that_was_asked_for_is_llama_cpps_field) {
  for (const Dialect dialect : kAllDialects) {
    AnswerInfo info = test_info(dialect);
    info.return_progress = true;
    const auto stream = AnswerStream::make(info);
    stream->take(Accepted{10});
    const auto data = data_of(stream->take(PromptProgress{0, 2048, 512, 812, 300}));
    ASSERT_EQ(data.size(), 1U);
    EXPECT_EQ(to_line(data[0]["prompt_progress"]),
              R"({"total":2048,"cache":512,"processed":812,"time_ms":300})");
    const auto queued = data_of(stream->take(Queued{.place = 2, .time_ms = 40}));
    ASSERT_EQ(queued.size(), 1U);
    EXPECT_EQ(to_line(queued[0]["prompt_progress"]),
              R"({"total":10,"cache":0,"processed":0,"time_ms":40,"queue_place":2})");
    EXPECT_EQ(stream->take(PromptProgress{.choice = 7}).find("data:"), std::string::npos)
        << "there is no such choice";
  }
}

TEST(Answer, a_whole_answer_that_fails_says_so) {
  WholeAnswer answer(test_info(Dialect::kChat));
  answer.take(Accepted{10});
  answer.take(AnswerDelta{.text = "a"});
  EXPECT_FALSE(answer.ended());
  answer.take(Failed{{.kind = ErrorKind::kNodeLost, .message = "gone"}});
  EXPECT_TRUE(answer.ended());
  ASSERT_TRUE(answer.failure());
  EXPECT_EQ(answer.failure()->kind, ErrorKind::kNodeLost);
}

TEST(Answer, deltas_of_choices_that_are_none_or_over_are_passed_over) {
  AnswerInfo info = test_info(Dialect::kChat);
  info.choices = 2;
  info.choices_per_prompt = 2;
  const auto stream = AnswerStream::make(info);
  stream->take(Accepted{10});
  EXPECT_EQ(stream->take(AnswerDelta{.choice = 2, .text = "a"}), "");
  EXPECT_NE(stream->take(finished(StopReason::kEndToken, 0)), "");
  EXPECT_EQ(stream->take(AnswerDelta{.choice = 0, .text = "a"}), "");
  EXPECT_FALSE(stream->ended());
  EXPECT_NE(stream->take(finished(StopReason::kEndToken, 1)), "");
  EXPECT_TRUE(stream->ended());
}

// Two prompts with two answers each: 2 * 10 prompt tokens, 4 * 3 answer tokens.
TEST(Answer, a_prompt_counts_once_for_all_its_choices) {
  AnswerInfo info = test_info(Dialect::kCompletions);
  info.choices = 4;
  info.choices_per_prompt = 2;
  const Json json =
      whole(info, {finished(StopReason::kEndToken, 0), finished(StopReason::kEndToken, 1),
                   finished(StopReason::kEndToken, 2), finished(StopReason::kEndToken, 3)});
  EXPECT_EQ(to_line(json["usage"]),
            R"({"prompt_tokens":20,"completion_tokens":12,"total_tokens":32,)"
            R"("prompt_tokens_details":{"cached_tokens":8}})");
}

TEST(AnswerInfo, takes_from_the_request_what_it_said) {
  const AnswerInfo info = answer_info(taken(Dialect::kCompletions, R"({"prompt": ["a", "b"],
      "n": 2, "echo": true, "stream": true, "stream_options": {"include_usage": true},
      "return_progress": true, "return_tokens": true, "response_fields": ["content"]})"));
  EXPECT_EQ(info.dialect, Dialect::kCompletions);
  EXPECT_EQ(info.choices, 4U);
  EXPECT_EQ(info.choices_per_prompt, 2U);
  EXPECT_TRUE(info.include_usage && info.return_progress && info.return_tokens && info.echo);
  EXPECT_TRUE(info.wants_prompts());
  EXPECT_FALSE(info.has_logprobs);
  EXPECT_EQ(info.response_fields, (std::vector<std::string>{"content"}));
  const AnswerInfo chat = answer_info(taken(Dialect::kChat, R"({"logprobs": true, "messages":
      [{"role": "user", "content": "a"}]})"));
  EXPECT_EQ(chat.choices, 1U);
  EXPECT_TRUE(chat.has_logprobs);
  EXPECT_FALSE(chat.wants_prompts());
}

}  // namespace
}  // namespace salvage::api
