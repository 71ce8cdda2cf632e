// Goal: tools and the choice among them mean the same from any client. Method: whole requests.

#include "api/openai/tools.h"

#include <gtest/gtest.h>

#include "api/test_request.h"

namespace salvage::api {
namespace {

constexpr const char* kTwoTools =
    R"("tools": [{"type": "function", "function": {"name": "f", "description": "d",
        "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}, "strict": true}},
        {"function": {"name": "g", "description": null}}])";

std::string with_tools(std::string_view more) {
  return R"({"messages": [{"role": "user", "content": "hi"}], )" + std::string(kTwoTools) +
         std::string(more) + "}";
}

ChatWish chat_with(std::string_view more) {
  const auto request = taken(Dialect::kChat, with_tools(more));
  return request.chat.value_or(ChatWish{});
}

std::string names_of(const ChatWish& chat) {
  std::string names;
  for (const Json& tool : chat.tools) names += tool["function"]["name"].get<std::string>();
  return names;
}

TEST(Tools, keep_the_order_of_their_keys_and_have_parameters) {
  EXPECT_EQ(to_line(chat_with("").tools),
            R"([{"type":"function","function":{"name":"f","description":"d","parameters":)"
            R"({"type":"object","properties":{"z":{},"a":{}}}}},{"type":"function","function":)"
            R"({"name":"g","description":"","parameters":{"type":"object","properties":{}}}}])");
}

TEST(Tools, a_choice_is_a_word_or_leaves_one_tool) {
  EXPECT_EQ(chat_with("").tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(chat_with(R"(, "tool_choice": "none")").tool_choice, ToolChoice::kNone);
  EXPECT_EQ(chat_with(R"(, "tool_choice": "required")").tool_choice, ToolChoice::kRequired);
  const ChatWish one =
      chat_with(R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})");
  EXPECT_EQ(one.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(names_of(one), "g");
}

TEST(Tools, allowed_tools_leave_some) {
  const ChatWish some = chat_with(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools":
      {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]}})");
  EXPECT_EQ(some.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(names_of(some), "f");
  EXPECT_EQ(refused(Dialect::kChat, with_tools(R"(, "tool_choice": {"type": "allowed_tools",
      "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": "x"}}]}})"))
                .param,
            "tool_choice.allowed_tools.tools");
}

TEST(Tools, whether_calls_may_be_parallel_is_told) {
  EXPECT_EQ(chat_with("").parallel_tool_calls, std::nullopt);
  EXPECT_EQ(chat_with(R"(, "parallel_tool_calls": false)").parallel_tool_calls, false);
}

TEST(Tools, wrong_tools_and_choices_are_named) {
  const auto param = [](std::string_view more) {
    return refused(Dialect::kChat, with_tools(more)).param;
  };
  EXPECT_EQ(param(R"(, "tool_choice": "maybe")"), "tool_choice");
  EXPECT_EQ(param(R"(, "tool_choice": {"type": "function"})"), "tool_choice.function");
  EXPECT_EQ(param(R"(, "tool_choice": {"type": "function", "function": {"name": "x"}})"),
            "tool_choice.function.name");
  EXPECT_EQ(param(R"(, "grammar": "root ::= \"a\"")"), "grammar");
  const auto tool = [](const char* json) {
    return refused(Dialect::kChat,
                   R"({"messages": [{"role": "user", "content": "hi"}], "tools": [)" +
                       std::string(json) + "]}");
  };
  EXPECT_EQ(tool("5").param, "tools[0]");
  EXPECT_EQ(tool(R"({"type": "function"})").param, "tools[0].function");
  EXPECT_EQ(tool(R"({"function": {}})").param, "tools[0].function.name");
  EXPECT_EQ(tool(R"({"function": {"name": ""}})").param, "tools[0].function.name");
  EXPECT_EQ(tool(R"({"function": {"name": "f", "parameters": []}})").param,
            "tools[0].function.parameters");
  const ApiError other = tool(R"({"type": "web_search"})");
  EXPECT_EQ(other.kind, ErrorKind::kNotSupported);
  EXPECT_EQ(other.param, "tools[0].type");
}

}  // namespace
}  // namespace salvage::api
