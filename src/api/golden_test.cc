// Goal: what clients receive never changes by accident. Method: requests in tests/golden/api/ are
// read, events as an engine would bring them are written as answers, and these compared byte by
// byte with the file beside the request. docs/reference/api-errors.md likewise with the table of
// errors. `api_golden_test --update` rewrites both; review the difference.

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "api/answer.h"
#include "api/errors.h"

namespace salvage::api {

bool update_golden = false;

namespace {

const std::filesystem::path kRoot = SALVAGE_SOURCE_DIR;
using Events = std::vector<AnswerEvent>;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void compare(const std::filesystem::path& path, const std::string& bytes) {
  if (update_golden) std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(read_file(path), bytes) << path << ": `api_golden_test --update`?";
}

AnswerInfo info_for(const GenerateRequest& request) {
  AnswerInfo info = answer_info(request);
  info.unique = "7Yx2mQ9kLw4Tz8Rb";
  info.created_s = 1767225600;
  info.model = "qwen3-0.6b";
  info.fingerprint = "b7150-fdf1192a";
  info.request_id = "req_51f0";
  if (info.wants_prompts()) info.prompts.assign(request.prompts.size(), "The sky is ");
  if (info.dialect == Dialect::kLlama) info.settings = {{"n_predict", 64}, {"top_k", 40}};
  return info;
}

// A request's file, its events, and the file of its answer: a stream (.sse) if it asks for one,
// else one JSON (.json).
void check_transcript(const std::string& name, Dialect dialect, const Events& events) {
  const auto folder = kRoot / "tests/golden/api";
  const auto request = parse_request(dialect, read_file(folder / (name + ".request.json")));
  ASSERT_TRUE(request) << name << ": " << request.error().message;
  const AnswerInfo info = info_for(*request);
  if (!request->stream) {
    WholeAnswer answer(info);
    for (const AnswerEvent& event : events) answer.take(event);
    ASSERT_TRUE(answer.ended()) << name;
    return compare(folder / (name + ".answer.json"), answer.body() + "\n");
  }
  const auto stream = AnswerStream::make(info);
  std::string bytes;
  for (const AnswerEvent& event : events) bytes += stream->take(event);
  EXPECT_TRUE(stream->ended()) << name;
  compare(folder / (name + ".answer.sse"), bytes);
}

Finished end(StopReason reason, std::uint32_t choice = 0) {
  return {.choice = choice,
          .reason = reason,
          .usage = {.prompt_tokens = 24, .cached_tokens = 16, .answer_tokens = 5},
          .timings = {.cached_tokens = 16,
                      .prompt_tokens = 8,
                      .prompt_ms = 412.5,
                      .answer_tokens = 5,
                      .answer_ms = 1612.9}};
}

AnswerDelta say(std::string text, TokenId token, std::uint32_t choice = 0) {
  return {.choice = choice, .text = std::move(text), .tokens = {token}};
}

AnswerDelta think(std::string text) {
  return {.reasoning = std::move(text), .tokens = {1}};
}

AnswerDelta call(std::uint32_t index, std::string id, std::string name, std::string arguments) {
  return {.calls = {{index, std::move(id), std::move(name), std::move(arguments)}}, .tokens = {2}};
}

AnswerDelta likely(std::string text, TokenId token, std::uint32_t choice = 0) {
  AnswerDelta delta = say(text, token, choice);
  delta.logprobs = {{.id = token,
                     .bytes = text,
                     .logprob = -0.125F,
                     .top = {{token, text, -0.125F}, {99, "\xE5\xA4", -2.5F}}}};
  return delta;
}

const Events kText = {Accepted{24}, say("天", 11), say("空🌤", 12), say(" is blue", 13),
                      end(StopReason::kEndToken)};

const Events kTools = {Accepted{24},
                       think("The user "),
                       think("asks twice."),
                       say("I look.", 3),
                       call(0, "call_a", "get_weather", ""),
                       call(0, "", "", "{\"city\":"),
                       call(0, "", "", "\"北京\"}"),
                       call(1, "", "now", ""),
                       end(StopReason::kEndToken)};

const Events kFailure = {
    Accepted{24}, say("The sky", 11),
    Failed{{.kind = ErrorKind::kNodeLost, .message = "node pi-3 is gone; the answer is cut"}}};

const Events kLikely = {Accepted{24},
                        likely("blue", 11),
                        likely("grau", 12, 1),
                        likely("!", 13),
                        end(StopReason::kTokenLimit, 0),
                        end(StopReason::kEndToken, 1)};

Events slow_events() {
  AnswerDelta timed = say("blue", 11);
  timed.timings = Timings{.cached_tokens = 16, .prompt_tokens = 8, .prompt_ms = 412.5};
  return {Accepted{24},
          Queued{2},
          Queued{1},
          PromptProgress{0, 24, 16, 16, 0},
          PromptProgress{0, 24, 16, 24, 412},
          timed,
          end(StopReason::kContextFull)};
}

Events stopped_events() {
  Finished stopped = end(StopReason::kStopText);
  stopped.stop_text = "\n\n";
  stopped.sequence = 1;
  return {Accepted{24}, say("blue", 11), stopped};
}

TEST(GoldenAnswers, chat) {
  check_transcript("chat_text", Dialect::kChat, kText);
  check_transcript("chat_tools", Dialect::kChat, kTools);
  check_transcript("chat_two_logprobs", Dialect::kChat, kLikely);
  check_transcript("chat_slow", Dialect::kChat, slow_events());
  check_transcript("chat_failure", Dialect::kChat, kFailure);
  check_transcript("chat_whole_tools", Dialect::kChat, kTools);
  check_transcript("chat_whole_logprobs", Dialect::kChat, kLikely);
}

TEST(GoldenAnswers, completions) {
  check_transcript("completions_echo", Dialect::kCompletions,
                   {Accepted{48}, say("blue", 11), say("grey", 12, 1),
                    end(StopReason::kTokenLimit, 1), end(StopReason::kEndToken, 0)});
  check_transcript("completions_whole_logprobs", Dialect::kCompletions, kLikely);
  check_transcript("completions_failure", Dialect::kCompletions, kFailure);
}

TEST(GoldenAnswers, responses) {
  check_transcript("responses_text", Dialect::kResponses, kText);
  Events tools = kTools;
  tools.insert(tools.end() - 1,
               call(2, "call_c", "apply_patch", R"({"input":"*** Begin\n\"x\""})"));
  check_transcript("responses_tools", Dialect::kResponses, tools);
  check_transcript("responses_failure", Dialect::kResponses, kFailure);
  check_transcript("responses_whole", Dialect::kResponses, slow_events());
}

TEST(GoldenAnswers, messages) {
  check_transcript("messages_text", Dialect::kMessages, kText);
  check_transcript("messages_tools", Dialect::kMessages, kTools);
  check_transcript("messages_failure", Dialect::kMessages, kFailure);
  check_transcript("messages_whole", Dialect::kMessages, stopped_events());
}

TEST(GoldenAnswers, llama) {
  check_transcript("llama_text", Dialect::kLlama, kText);
  check_transcript("llama_slow", Dialect::kLlama, slow_events());
  check_transcript("llama_failure", Dialect::kLlama, kFailure);
  check_transcript("llama_whole", Dialect::kLlama, stopped_events());
}

std::string retry_words(const ErrorFacts& facts) {
  if (facts.retry == Retry::kNever) return "no";
  if (facts.retry == Retry::kPerhaps) return "perhaps";
  return fmt::format("after {} s", facts.retry_after_seconds);
}

TEST(ReferencePage, lists_the_errors_of_the_code) {
  std::string page =
      "# Errors of the HTTP interface\n\n"
      "Made by `api_golden_test --update`; change `src/api/errors.cc`, then run it.\n\n"
      "A code is stable; `error.message` is English and says what to do. Clients of Anthropic get\n"
      "their own types, and 529 where others get 503; llama.cpp's get the status as a number.\n\n"
      "| HTTP | code | OpenAI type | Anthropic type | again? | meaning |\n"
      "|---|---|---|---|---|---|\n";
  for (const ErrorFacts& facts : all_error_facts()) {
    page += fmt::format("| {} | `{}` | {} | {} | {} | {} |\n", facts.status, facts.code,
                        facts.openai_type, facts.anthropic_type, retry_words(facts), facts.meaning);
  }
  compare(kRoot / "docs/reference/api-errors.md", page);
}

}  // namespace
}  // namespace salvage::api

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--update") salvage::api::update_golden = true;
  }
  return RUN_ALL_TESTS();
}
