// Goal: a response's input becomes the chat that it means, turn by turn. Method: whole requests,
// the messages of each compared as JSON.

#include "api/openai/responses_request.h"

#include <gtest/gtest.h>

#include "api/test_request.h"

namespace salvage::api {
namespace {

std::string messages_of(const std::string& body) {
  const auto request = taken(Dialect::kResponses, body);
  return request.chat ? to_line(request.chat->messages) : "";
}

std::string input(std::string_view more) {
  return R"({"input": "hi", )" + std::string(more) + "}";
}

TEST(ResponsesInput, a_text_is_what_the_user_says) {
  EXPECT_EQ(messages_of(R"({"input": "hi"})"), R"([{"role":"user","content":"hi"}])");
}

TEST(ResponsesInput, what_the_system_says_first_is_one_message) {
  EXPECT_EQ(messages_of(R"({"instructions": "A", "input": [
                {"role": "developer", "content": [{"type": "input_text", "text": "B"},
                                                  {"type": "input_text", "text": "C"}]},
                {"type": "message", "role": "user", "content": "hi"},
                {"role": "system", "content": "D"}]})"),
            R"([{"role":"system","content":"A\n\nB\n\nC"},{"role":"user","content":"hi"},)"
            R"({"role":"system","content":"D"}])");
}

TEST(ResponsesInput, a_turn_of_the_assistant_is_one_message) {
  EXPECT_EQ(messages_of(R"({"input": [
                {"role": "user", "content": "weather?"},
                {"type": "reasoning", "summary": [], "encrypted_content": "zz"},
                {"type": "reasoning", "summary": [],
                 "content": [{"type": "reasoning_text", "text": "hm"}]},
                {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                 "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}"},
                {"type": "custom_tool_call", "call_id": "c2", "name": "patch",
                 "input": "*** \"x\""},
                {"type": "function_call_output", "call_id": "c1", "output": "rain"},
                {"type": "custom_tool_call_output", "call_id": "c2",
                 "output": [{"type": "input_text", "text": "done"}]}]})"),
            R"([{"role":"user","content":"weather?"},{"role":"assistant","content":"I look.",)"
            R"("reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":)"
            R"({"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":)"
            R"({"name":"patch","arguments":"{\"input\":\"*** \\\"x\\\"\"}"}}]},)"
            R"({"role":"tool","content":"rain","tool_call_id":"c1"},)"
            R"({"role":"tool","content":"done","tool_call_id":"c2"}])");
}

TEST(ResponsesInput, wrong_items_are_named) {
  const auto error = [](const std::string& list) {
    return refused(Dialect::kResponses, "{\"input\": " + list + "}");
  };
  EXPECT_EQ(refused(Dialect::kResponses, "{}").param, "input");
  EXPECT_EQ(error("5").param, "input");
  EXPECT_EQ(error("[]").param, "input");
  EXPECT_EQ(error("[5]").param, "input[0]");
  EXPECT_EQ(error(R"([{"role": "robot", "content": "x"}])").param, "input[0].role");
  EXPECT_EQ(error(R"([{"role": "user", "content": [{"type": "input_image"}]}])").param,
            "input[0].content[0].type");
  EXPECT_EQ(error(R"([{"type": "function_call", "name": "f"}])").param, "input[0].call_id");
  const ApiError other = error(R"([{"type": "item_reference", "id": "x"}])");
  EXPECT_EQ(other.kind, ErrorKind::kNotSupported);
  EXPECT_EQ(other.param, "input[0].type");
}

TEST(ResponsesRequest, fields_of_its_own) {
  const auto request = taken(Dialect::kResponses, input(R"(
      "model": "m", "max_output_tokens": 9, "reasoning": {"effort": "low", "summary": "auto"},
      "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "array"}}},
      "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
      "top_logprobs": 3, "stream": true, "temperature": 0.5, "store": false, "user": "u")"));
  EXPECT_EQ(request.tokens_max, 9U);
  EXPECT_EQ(to_line(request.chat->template_kwargs), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(to_line(*request.json_schema), R"({"type":"array"})");
  EXPECT_EQ(request.logprobs, 3U);
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.sampler.temperature, 0.5F);
  EXPECT_EQ(to_line(request.response_echo),
            R"({"instructions":null,"max_output_tokens":9,"metadata":{},)"
            R"("parallel_tool_calls":true,"temperature":0.5,"tool_choice":"auto","tools":[],)"
            R"("top_p":null})");
  EXPECT_EQ(taken(Dialect::kResponses, input(R"("top_logprobs": 3)")).logprobs, std::nullopt);
}

TEST(ResponsesRequest, custom_tools_are_functions_of_one_text_and_built_in_ones_are_left_out) {
  const auto request = taken(Dialect::kResponses, input(R"("tools": [
      {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {}}}},
      {"type": "custom", "name": "patch", "description": "d", "format": {"type": "grammar"}},
      {"type": "web_search"}, {"type": "local_shell"}])"));
  EXPECT_EQ(to_line(request.chat->tools),
            R"([{"type":"function","function":{"name":"f","description":"","parameters":)"
            R"({"type":"object","properties":{"a":{}}}}},{"type":"function","function":)"
            R"({"name":"patch","description":"d","parameters":{"type":"object","properties":)"
            R"({"input":{"type":"string"}},"required":["input"]}}}])");
  EXPECT_EQ(request.custom_tools, (std::vector<std::string>{"patch"}));
}

TEST(ResponsesRequest, a_choice_of_tools) {
  const auto chat_of = [](std::string_view choice) {
    return *taken(Dialect::kResponses, input(R"("tools": [{"type": "function", "name": "f"},
                                     {"type": "custom", "name": "p"}], "tool_choice": )" +
                                             std::string(choice)))
                .chat;
  };
  EXPECT_EQ(chat_of("\"required\"").tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(chat_of(R"({"type": "custom", "name": "p"})").tools.size(), 1U);
  EXPECT_EQ(chat_of(R"({"type": "function", "name": "f"})").tool_choice, ToolChoice::kRequired);
  const ChatWish allowed = chat_of(
      R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]})");
  EXPECT_EQ(allowed.tools.size(), 1U);
  EXPECT_EQ(allowed.tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(refused(Dialect::kResponses, input(R"("tool_choice": {"type": "web_search"})")).kind,
            ErrorKind::kNotSupported);
}

TEST(ResponsesRequest, what_needs_memory_of_us_is_not_done) {
  for (const char* fields :
       {R"("previous_response_id": "resp_1")", R"("conversation": "c")",
        R"("conversation": {"id": "c"})", R"("background": true)", R"("prompt": {"id": "p"})"}) {
    EXPECT_EQ(refused(Dialect::kResponses, input(fields)).kind, ErrorKind::kNotSupported) << fields;
  }
  taken(Dialect::kResponses, input(R"("previous_response_id": null, "background": false,
                                      "conversation": null, "store": true)"));
  EXPECT_EQ(refused(Dialect::kResponses, input(R"("n": 2)")).param, "n");
}

}  // namespace
}  // namespace salvage::api
