// Goal: Anthropic's blocks become the chat that they mean, and nothing that changes with every
// request stands at its beginning. Method: whole requests, the messages of each compared as JSON.

#include "api/anthropic/messages_request.h"

#include <gtest/gtest.h>

#include "api/anthropic/blocks.h"
#include "api/test_request.h"

namespace salvage::api {
namespace {

std::string message(std::string_view more) {
  return R"({"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}])" +
         std::string(more) + "}";
}

std::string messages_of(const std::string& body) {
  const auto request = taken(Dialect::kMessages, body);
  return request.chat ? to_line(request.chat->messages) : "";
}

TEST(BillingHeader, the_line_goes_and_the_prompt_stays) {
  constexpr const char* kHeader =
      "x-anthropic-billing-header: cc_version=2.1.101.e51; cc_entrypoint=cli; cch=a5145;";
  const std::string header = kHeader;
  EXPECT_EQ(without_billing_header(header), "");
  EXPECT_EQ(without_billing_header(header + "\nYou are"), "You are");
  EXPECT_EQ(without_billing_header(header + "You are k=v; so"), "You are k=v; so");
  EXPECT_EQ(without_billing_header(header + "\r\n\r\nYou"), "You");
  EXPECT_EQ(without_billing_header("x-anthropic-billing-header: cch=1\nYou"), "You");
  EXPECT_EQ(without_billing_header("x-anthropic-billing-header:"), "");
  EXPECT_EQ(without_billing_header("You " + header), "You " + header);
}

TEST(AnthropicMessages, a_system_text_is_the_first_message_without_its_header) {
  EXPECT_EQ(messages_of(message(R"(, "system": "Be brief.")")),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}])");
  EXPECT_EQ(messages_of(message(R"(, "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=0;"},
                {"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "B"}])")),
            R"([{"role":"system","content":[{"type":"text","text":"A"},)"
            R"({"type":"text","text":"B"}]},{"role":"user","content":"hi"}])");
  EXPECT_EQ(messages_of(message(R"(, "system": "x-anthropic-billing-header: cch=5;")")),
            R"([{"role":"user","content":"hi"}])");
}

TEST(AnthropicMessages, two_requests_that_differ_in_the_header_only_are_the_same_chat) {
  const auto with_stamp = [](const char* stamp) {
    return messages_of(
        message(R"(, "system": "x-anthropic-billing-header: cc_version=2.1.9; cch=)" +
                std::string(stamp) + R"(;\nYou are")"));
  };
  EXPECT_EQ(with_stamp("a1b2c"), with_stamp("fffff"));
}

TEST(AnthropicMessages, blocks_become_messages_in_their_order) {
  EXPECT_EQ(messages_of(R"({"max_tokens": 9, "messages": [
                {"role": "user", "content": [{"type": "text", "text": "weather?"}]},
                {"role": "assistant", "content": [
                  {"type": "thinking", "thinking": "hm", "signature": "s"},
                  {"type": "redacted_thinking", "data": "zz"},
                  {"type": "text", "text": "I look."},
                  {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": 2}},
                  {"type": "tool_use", "id": "t2", "name": "g", "input": {}}]},
                {"role": "user", "content": [
                  {"type": "tool_result", "tool_use_id": "t1", "content": "rain"},
                  {"type": "tool_result", "tool_use_id": "t2", "is_error": true,
                   "content": [{"type": "text", "text": "no"}]},
                  {"type": "text", "text": "so?"}]}]})"),
            R"([{"role":"user","content":"weather?"},{"role":"assistant","content":"I look.",)"
            R"("reasoning_content":"hm","tool_calls":[{"id":"t1","type":"function","function":)"
            R"({"name":"f","arguments":"{\"b\":1,\"a\":2}"}},{"id":"t2","type":"function",)"
            R"("function":{"name":"g","arguments":"{}"}}]},)"
            R"({"role":"tool","content":"rain","tool_call_id":"t1"},)"
            R"({"role":"tool","content":"no","tool_call_id":"t2"},)"
            R"({"role":"user","content":"so?"}])");
}

TEST(AnthropicMessages, an_empty_turn_and_an_empty_result_stay) {
  EXPECT_EQ(messages_of(R"({"messages": [{"role": "user", "content": "a"},
                {"role": "assistant", "content": []}, {"role": "user", "content":
                [{"type": "tool_result", "tool_use_id": "t"}]}]})"),
            R"([{"role":"user","content":"a"},{"role":"assistant","content":""},)"
            R"({"role":"tool","content":"","tool_call_id":"t"}])");
}

TEST(AnthropicMessages, wrong_blocks_are_named) {
  const auto error = [](const std::string& content) {
    return refused(Dialect::kMessages,
                   R"({"messages": [{"role": "user", "content": )" + content + "}]}");
  };
  EXPECT_EQ(refused(Dialect::kMessages, "{}").param, "messages");
  EXPECT_EQ(refused(Dialect::kMessages, R"({"messages": []})").param, "messages");
  EXPECT_EQ(refused(Dialect::kMessages, message(R"(, "system": 5)")).param, "system");
  EXPECT_EQ(refused(Dialect::kMessages, message(R"(, "system": [{"type": "image"}])")).param,
            "system[0].type");
  EXPECT_EQ(error("5").param, "messages[0].content");
  EXPECT_EQ(error(R"(["a"])").param, "messages[0].content[0]");
  EXPECT_EQ(error(R"([{"type": "text"}])").param, "messages[0].content[0].text");
  EXPECT_EQ(error(R"([{"type": "image", "source": {}}])").kind, ErrorKind::kInvalidValue);
  EXPECT_EQ(error(R"([{"type": "server_tool_use"}])").kind, ErrorKind::kNotSupported);
  EXPECT_EQ(error(R"([{"type": "tool_use", "name": "f"}])").param, "messages[0].content[0].id");
  EXPECT_EQ(error(R"([{"type": "tool_result", "tool_use_id": "t",
                       "content": [{"type": "image"}]}])")
                .param,
            "messages[0].content[0].content[0].type");
}

TEST(MessagesRequest, fields_of_its_own) {
  const auto request = taken(Dialect::kMessages, message(R"(,
      "model": "m", "stop_sequences": ["a"], "top_k": 7, "stream": true,
      "metadata": {"user_id": "u"}, "thinking": {"type": "enabled", "budget_tokens": 1024},
      "output_config": {"effort": "high",
                        "format": {"type": "json_schema", "schema": {"x": 1}}})"));
  EXPECT_EQ(request.tokens_max, 9U);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a"}));
  EXPECT_EQ(request.sampler.top_k, 7);
  EXPECT_EQ(request.user, "u");
  EXPECT_EQ(request.chat->enable_thinking, true);
  EXPECT_EQ(request.chat->reasoning_tokens_max, 1024);
  EXPECT_EQ(to_line(request.chat->template_kwargs), R"({"reasoning_effort":"high"})");
  EXPECT_EQ(to_line(*request.json_schema), R"({"x":1})");
}

TEST(MessagesRequest, thinking_is_on_off_or_left_to_the_model) {
  const auto thinking = [](std::string_view value) {
    return taken(Dialect::kMessages, message(", \"thinking\": " + std::string(value)))
        .chat->enable_thinking;
  };
  EXPECT_EQ(thinking(R"({"type": "disabled"})"), false);
  EXPECT_EQ(thinking(R"({"type": "adaptive"})"), std::nullopt);
  EXPECT_EQ(refused(Dialect::kMessages, message(R"(, "thinking": {"type": "x"})")).param,
            "thinking.type");
}

TEST(MessagesRequest, tools_and_the_choice_among_them) {
  const auto chat_of = [](std::string_view choice) {
    return *taken(Dialect::kMessages,
                  message(R"(, "tools": [{"name": "f", "description": "d", "input_schema":
                             {"type": "object", "properties": {"a": {}}}},
                             {"type": "custom", "name": "g", "input_schema": {}}])" +
                          std::string(choice)))
                .chat;
  };
  const ChatWish two = chat_of("");
  EXPECT_EQ(to_line(two.tools[0]),
            R"({"type":"function","function":{"name":"f","description":"d","parameters":)"
            R"({"type":"object","properties":{"a":{}}}}})");
  EXPECT_EQ(two.tools.size(), 2U);
  EXPECT_EQ(chat_of(R"(, "tool_choice": {"type": "any"})").tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(chat_of(R"(, "tool_choice": {"type": "none"})").tool_choice, ToolChoice::kNone);
  const ChatWish one = chat_of(
      R"(, "tool_choice": {"type": "tool", "name": "g", "disable_parallel_tool_use": true})");
  EXPECT_EQ(one.tools.size(), 1U);
  EXPECT_EQ(one.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(one.parallel_tool_calls, false);
  const ApiError server =
      refused(Dialect::kMessages,
              message(R"(, "tools": [{"type": "web_search_20250305", "name": "web_search"}])"));
  EXPECT_EQ(server.kind, ErrorKind::kNotSupported);
  EXPECT_EQ(server.param, "tools[0].type");
  EXPECT_EQ(refused(Dialect::kMessages, message(R"(, "tools": [{"input_schema": {}}])")).param,
            "tools[0].name");
  EXPECT_EQ(refused(Dialect::kMessages, message(R"(, "mcp_servers": [{"url": "x"}])")).kind,
            ErrorKind::kNotSupported);
}

}  // namespace
}  // namespace salvage::api
