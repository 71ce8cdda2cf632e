// Goal: an answer read in any pieces is the answer read at once, deltas add up to it, and nothing
// that a model may write throws, hangs or is lost. Method: answers in the forms of several
// families, cut everywhere, damaged and random.
#include "engine/llama/llama_chat_parser.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/utf8.h"
#include "engine/llama/test_vocabulary.h"

namespace salvage::engine {
namespace {

using Json = nlohmann::ordered_json;

// What a client puts together from deltas, by the rules of engine/chat.h.
class Client {
 public:
  void take(const std::vector<ChatDelta>& deltas) {
    for (const ChatDelta& delta : deltas) {
      const int kinds = (delta.content.empty() ? 0 : 1) + (delta.reasoning.empty() ? 0 : 1) +
                        (delta.tool_call ? 1 : 0);
      EXPECT_EQ(kinds, 1) << "a delta says one thing";
      answer_.content += delta.content;
      answer_.reasoning += delta.reasoning;
      if (!delta.tool_call) continue;
      const ChatDelta::ToolCall& call = *delta.tool_call;
      const bool fresh = call.index == answer_.tool_calls.size();
      ASSERT_LE(call.index, answer_.tool_calls.size());
      EXPECT_EQ(fresh, !call.name.empty()) << "a name comes once";
      EXPECT_EQ(fresh, !call.id.empty()) << "an id comes once";
      if (fresh) answer_.tool_calls.push_back({call.id, call.name, {}});
      answer_.tool_calls[call.index].arguments += call.arguments;
    }
  }
  const ChatAnswer& answer() const { return answer_; }

 private:
  ChatAnswer answer_;
};

// In pieces of `bytes`, never within a character.
ChatAnswer read_in_pieces(const ChatPrompt& prompt, const std::string& text, std::size_t bytes) {
  const auto parser = prompt.make_parser();
  Client client;
  Utf8Stream characters;
  for (std::size_t at = 0; at < text.size(); at += bytes) {
    client.take(parser->push(characters.push(text.substr(at, bytes))));
  }
  client.take(parser->push(characters.finish()));
  client.take(parser->finish());
  EXPECT_EQ(client.answer(), parser->answer());
  return client.answer();
}

// The answer read whole, after it was read in pieces of every size and found to be the same.
ChatAnswer read_every_way(const ChatPrompt& prompt, const std::string& text) {
  ChatAnswer whole = read_in_pieces(prompt, text, std::max<std::size_t>(text.size(), 1));
  for (ChatToolCall& call : whole.tool_calls) {
    EXPECT_FALSE(call.id.empty());
    call.id.clear();
  }
  for (const std::size_t bytes : {1U, 2U, 3U, 7U, 16U}) {
    ChatAnswer pieces = read_in_pieces(prompt, text, bytes);
    for (ChatToolCall& call : pieces.tool_calls) call.id.clear();
    EXPECT_EQ(pieces.content, whole.content) << bytes;
    EXPECT_EQ(pieces.reasoning, whole.reasoning) << bytes;
    EXPECT_EQ(pieces.tool_calls, whole.tool_calls) << bytes;
  }
  return whole;
}

Json two_tools() {
  return Json::parse(R"([
    {"type":"function","function":{"name":"weather","description":"the weather","parameters":
      {"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},
       "required":["city"]}}},
    {"type":"function","function":{"name":"now","description":"the time"}}])");
}

ChatPrompt prompt_with_tools(const std::string& vocabulary, const std::string& name) {
  const auto format = test_format(vocabulary, upstream_template(name));
  ChatRequest request = chat_of(R"([{"role":"user","content":"weather in Oslo?"}])");
  request.tools = two_tools();
  request.parallel_tool_calls = true;
  auto prompt = format->apply(request);
  EXPECT_TRUE(prompt) << prompt.error().message();
  return std::move(*prompt);
}

Json arguments_of(const ChatToolCall& call) {
  EXPECT_TRUE(Json::accept(call.arguments)) << call.arguments;
  return Json::parse(call.arguments, nullptr, false);
}

TEST(LlamaChatParserTest, content_is_content) {
  const ChatPrompt prompt = prompt_with_tools("qwen2", "Qwen-Qwen2.5-7B-Instruct");
  EXPECT_EQ(
      read_every_way(prompt, "Cold, \xe4\xbd\xa0\xe5\xa5\xbd. <b>Bring</b> {a: [1]} < > & a coat")
          .content,
      "Cold, \xe4\xbd\xa0\xe5\xa5\xbd. <b>Bring</b> {a: [1]} < > & a coat");
  EXPECT_EQ(read_every_way(prompt, "").content, "");
  EXPECT_EQ(read_in_pieces(prompt, "\n", 1).tool_calls.size(), 0U);
}

TEST(LlamaChatParserTest, qwens_calls_come_with_name_and_arguments) {
  const ChatPrompt prompt = prompt_with_tools("qwen2", "Qwen-Qwen2.5-7B-Instruct");
  const ChatAnswer answer =
      read_every_way(prompt,
                     "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
                     "\"Oslo \\\"N\\\" \xe4\xbd\xa0\", \"days\": 2}}\n</tool_call>");
  EXPECT_EQ(answer.content, "Let me see.\n");
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(answer.tool_calls[0].name, "weather");
  EXPECT_EQ(arguments_of(answer.tool_calls[0]),
            Json::parse("{\"city\": \"Oslo \\\"N\\\" \xe4\xbd\xa0\", \"days\": 2}"));
}

TEST(LlamaChatParserTest, several_calls_come_one_after_another_and_none_without_arguments) {
  const ChatPrompt prompt = prompt_with_tools("qwen2", "Qwen-Qwen2.5-7B-Instruct");
  const ChatAnswer answer =
      read_every_way(prompt,
                     "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n"
                     "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n"
                     "</tool_call>");
  ASSERT_EQ(answer.tool_calls.size(), 2U);
  EXPECT_EQ(answer.tool_calls[0].name, "now");
  EXPECT_EQ(arguments_of(answer.tool_calls[0]), Json::object());
  EXPECT_EQ(answer.tool_calls[1].name, "weather");
  EXPECT_EQ(answer.content, "");
}

TEST(LlamaChatParserTest, llamas_calls_are_read) {
  const ChatPrompt prompt = prompt_with_tools("llama-bpe", "meta-llama-Llama-3.1-8B-Instruct");
  const ChatAnswer answer =
      read_every_way(prompt, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\"}}");
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(answer.tool_calls[0].name, "weather");
  EXPECT_EQ(arguments_of(answer.tool_calls[0])["city"], "Oslo");
}

TEST(LlamaChatParserTest, calls_in_tags_are_read) {
  const ChatPrompt prompt = prompt_with_tools("qwen35", "Qwen3-Coder");
  const ChatAnswer answer =
      read_every_way(prompt,
                     "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n"
                     "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>");
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(arguments_of(answer.tool_calls[0]), Json::parse(R"({"city":"Oslo","days":2})"));
}

TEST(LlamaChatParserTest, thoughts_are_told_apart_and_hold_no_calls) {
  const ChatPrompt prompt = prompt_with_tools("qwen35", "Qwen-Qwen3-0.6B");
  const ChatAnswer answer =
      read_every_way(prompt,
                     "<think>\nI could write <tool_call> {\"name\": \"now\"} here.\n</think>\n\n"
                     "It is cold.");
  EXPECT_THAT(answer.reasoning, testing::HasSubstr("<tool_call>"));
  EXPECT_THAT(answer.content, testing::HasSubstr("It is cold."));
  EXPECT_TRUE(answer.tool_calls.empty());
}

TEST(LlamaChatParserTest, thoughts_may_stay_in_the_content) {
  const auto format = test_format("qwen35", upstream_template("Qwen-Qwen3-0.6B"));
  ChatRequest request = chat_of(R"([{"role":"user","content":"why?"}])");
  request.split_reasoning = false;
  const auto prompt = format->apply(request);
  ASSERT_TRUE(prompt);
  const ChatAnswer answer = read_every_way(*prompt, "<think>\nhm\n</think>\n\nbecause");
  EXPECT_EQ(answer.reasoning, "");
  EXPECT_THAT(answer.content, testing::HasSubstr("hm"));
  EXPECT_THAT(answer.content, testing::HasSubstr("because"));
}

TEST(LlamaChatParserTest, an_answer_bound_to_a_schema_is_content) {
  const auto format = test_format("qwen2", upstream_template("Qwen-Qwen2.5-7B-Instruct"));
  ChatRequest request = chat_of(R"([{"role":"user","content":"a list"}])");
  request.json_schema = Json::parse(R"({"type":"array","items":{"type":"integer"}})");
  const auto prompt = format->apply(request);
  ASSERT_TRUE(prompt);
  EXPECT_EQ(read_every_way(*prompt, "[1, 2]").content, "[1, 2]");
}

// --- what no parser expects ----------------------------------------------------------------------

const std::vector<std::string>& families() {
  static const std::vector<std::string> names = {"Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B",
                                                 "Qwen3-Coder"};
  return names;
}

TEST(OddAnswersTest, calls_that_make_no_sense_are_not_lost_and_the_answer_ends) {
  const ChatPrompt prompt = prompt_with_tools("qwen2", "Qwen-Qwen2.5-7B-Instruct");
  const std::vector<std::string> odd = {
      "Sure. <tool_call>\n{broken\n</tool_call>",
      "Sure. <tool_call>\n{\"name\": \"nobody\", \"arguments\": {}}\n</tool_call>",
      "Sure. <tool_call>\n{\"name\": \"weather\"}\n</tool_call>", "Sure. </tool_call></tool_call>"};
  for (const std::string& text : odd) {
    const ChatAnswer answer = read_in_pieces(prompt, text, 3);
    EXPECT_THAT(answer.content, testing::StartsWith("Sure. ")) << text;
    if (answer.tool_calls.empty()) {
      EXPECT_EQ(answer.content, text);
    }
  }
}

TEST(OddAnswersTest, an_answer_that_was_cut_off_gives_what_there_is) {
  const ChatPrompt prompt = prompt_with_tools("qwen2", "Qwen-Qwen2.5-7B-Instruct");
  const ChatAnswer answer = read_in_pieces(
      prompt, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Os", 1);
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(answer.tool_calls[0].name, "weather");
}

TEST(OddAnswersTest, brackets_without_end_cost_no_stack) {
  for (const std::string& name : families()) {
    const ChatPrompt prompt = prompt_with_tools("qwen35", name);
    for (const char* open : {"[", "{\"a\":", "[{\"a\":["}) {
      std::string text = "<tool_call>\n{\"name\": \"weather\", \"arguments\": ";
      for (int i = 0; i < 20000; ++i) text += open;
      const auto parser = prompt.make_parser();
      Client client;
      for (std::size_t at = 0; at < text.size(); at += 4096) {
        client.take(parser->push(text.substr(at, 4096)));
      }
      client.take(parser->finish());
      EXPECT_EQ(client.answer(), parser->answer());
    }
  }
}

TEST(OddAnswersTest, random_answers_never_throw_and_add_up) {
  static const std::vector<std::string> kFragments = {"<think>",
                                                      "</think>",
                                                      "<tool_call>",
                                                      "</tool_call>",
                                                      "{\"name\": \"weather\"",
                                                      ", \"arguments\": ",
                                                      "{\"city\": \"Oslo\"}",
                                                      "}",
                                                      "<function=weather>",
                                                      "</function>",
                                                      "<parameter=city>",
                                                      "</parameter>",
                                                      "\n",
                                                      " ",
                                                      "x",
                                                      "[",
                                                      "]",
                                                      "\"",
                                                      "\\",
                                                      "\xe4\xbd\xa0",
                                                      "<",
                                                      "{}"};
  Random random(17);
  for (const std::string& name : families()) {
    const ChatPrompt prompt = prompt_with_tools("qwen35", name);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (std::size_t i = random.below(20); i > 0; --i) {
        if (random.below(8) == 0) {
          text += static_cast<char>(random.below(256));
        } else {
          text += kFragments[random.below(kFragments.size())];
        }
      }
      (void)read_in_pieces(prompt, text, 1 + random.below(9));
    }
  }
}

TEST(OddAnswersTest, the_same_prompt_reads_several_answers_at_once) {
  const ChatPrompt prompt = prompt_with_tools("qwen2", "Qwen-Qwen2.5-7B-Instruct");
  const auto one = prompt.make_parser();
  const auto other = prompt.make_parser();
  one->push("one");
  other->push("other");
  one->finish();
  other->finish();
  EXPECT_EQ(one->answer().content, "one");
  EXPECT_EQ(other->answer().content, "other");
}

}  // namespace
}  // namespace salvage::engine
