// Goal: chats as clients write them become the one shape that templates read, and what can't be is
// named. Method: whole requests, the messages of each compared as JSON.

#include "api/openai/chat_request.h"

#include <gtest/gtest.h>

#include "api/test_request.h"

namespace salvage::api {
namespace {

std::string chat(std::string_view fields) {
  return R"({"messages": [{"role": "user", "content": "hi"}], )" + std::string(fields) + "}";
}

std::string messages_of(const std::string& list) {
  const auto request = taken(Dialect::kChat, "{\"messages\": " + list + "}");
  return request.chat ? to_line(request.chat->messages) : "";
}

ApiError refused_messages(const std::string& list) {
  return refused(Dialect::kChat, "{\"messages\": " + list + "}");
}

TEST(ChatMessages, texts_parts_and_roles_of_all_clients) {
  EXPECT_EQ(messages_of(R"([{"role": "developer", "content": "Be brief."},
                            {"role": "user", "content": [{"type": "text", "text": "one"}]},
                            {"role": "assistant", "content": "two"},
                            {"role": "user", "content": [{"type": "text", "text": "三"},
                                                         {"type": "input_text", "text": "4"}]}])"),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"one"},)"
            R"({"role":"assistant","content":"two"},{"role":"user","content":)"
            R"([{"type":"text","text":"三"},{"type":"text","text":"4"}]}])");
}

TEST(ChatMessages, an_empty_turn_is_a_turn) {
  EXPECT_EQ(messages_of(R"([{"role": "user", "content": "a"}, {"role": "assistant"},
                            {"role": "user", "content": null},
                            {"role": "assistant", "content": []},
                            {"role": "user", "content": ""}])"),
            R"([{"role":"user","content":"a"},{"role":"assistant","content":""},)"
            R"({"role":"user","content":""},{"role":"assistant","content":""},)"
            R"({"role":"user","content":""}])");
}

TEST(ChatMessages, calls_without_ids_get_some_and_so_do_their_results) {
  EXPECT_EQ(messages_of(R"([{"role": "user", "content": "x"},
                            {"role": "assistant", "content": null, "tool_calls": [
                              {"id": null, "function": {"name": "f", "arguments": {"a": 1}}},
                              {"id": "own", "type": "function",
                               "function": {"name": "g", "arguments": ""}}]},
                            {"role": "tool", "tool_call_id": null, "content": "r0"},
                            {"role": "function", "name": "g", "content": "r1"}])"),
            R"([{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[)"
            R"({"id":"call_1_0","type":"function","function":{"name":"f","arguments":)"
            R"("{\"a\":1}"}},{"id":"own","type":"function","function":{"name":"g","arguments":)"
            R"("{}"}}]},{"role":"tool","content":"r0","tool_call_id":"call_1_0"},)"
            R"({"role":"tool","content":"r1","tool_call_id":"own","name":"g"}])");
}

TEST(ChatMessages, an_old_function_call_is_a_tool_call) {
  EXPECT_EQ(messages_of(R"([{"role": "user", "content": "x"},
                            {"role": "assistant", "function_call": {"name": "f"}},
                            {"role": "function", "name": "f", "content": "r"}])"),
            R"([{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[)"
            R"({"id":"call_1_0","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
            R"({"role":"tool","content":"r","tool_call_id":"call_1_0","name":"f"}])");
}

TEST(ChatMessages, what_was_thought_comes_along) {
  EXPECT_EQ(messages_of(R"([{"role": "user", "content": "x"},
                            {"role": "assistant", "content": "y", "reasoning": "hm"},
                            {"role": "user", "content": "z"}])"),
            R"([{"role":"user","content":"x"},{"role":"assistant","content":"y",)"
            R"("reasoning_content":"hm"},{"role":"user","content":"z"}])");
}

TEST(ChatMessages, wrong_messages_are_named_to_the_field) {
  const std::pair<const char*, const char*> wrong[] = {
      {"42", "messages"},
      {"[]", "messages"},
      {"[5]", "messages[0]"},
      {R"([{"content": "a"}])", "messages[0].role"},
      {R"([{"role": "robot", "content": "a"}])", "messages[0].role"},
      {R"([{"role": "user"}])", "messages[0].content"},
      {R"([{"role": "user", "content": 5}])", "messages[0].content"},
      {R"([{"role": "user", "content": [{"text": "a"}]}])", "messages[0].content[0].type"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text"},
      {R"([{"role": "user", "content": ["a"]}])", "messages[0].content[0]"},
      {R"([{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}])",
       "messages[1].tool_call_id"},
      {R"([{"role": "assistant", "tool_calls": [{"type": "function"}]}])",
       "messages[0].tool_calls[0].function"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}])",
       "messages[0].tool_calls[0].function.name"},
      {R"([{"role": "assistant", "tool_calls": {"a": 1}}])", "messages[0].tool_calls"},
  };
  for (const auto& [list, param] : wrong) EXPECT_EQ(refused_messages(list).param, param) << list;
  EXPECT_EQ(refused(Dialect::kChat, "{}").param, "messages");
}

TEST(ChatMessages, pictures_are_refused_with_the_models_name) {
  const ApiError error = refused(Dialect::kChat, R"({"model": "m", "messages": [{"role": "user",
      "content": [{"type": "text", "text": "?"},
                  {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}]})");
  EXPECT_EQ(error.kind, ErrorKind::kInvalidValue);
  EXPECT_EQ(error.message,
            "'messages[0].content[1].type' is \"image_url\", but the model \"m\" takes text only");
}

TEST(ChatRequest, formats_are_nested_or_flat) {
  const auto schema_of = [](std::string_view format) {
    const auto request = taken(Dialect::kChat, chat("\"response_format\": " + std::string(format)));
    return request.json_schema ? to_line(*request.json_schema) : "none";
  };
  EXPECT_EQ(schema_of(R"({"type": "text"})"), "none");
  EXPECT_EQ(schema_of(R"({"type": "json_object"})"), "{}");
  EXPECT_EQ(schema_of(R"({"type": "json_object", "schema": {"type": "array"}})"),
            R"({"type":"array"})");
  EXPECT_EQ(schema_of(R"({"type": "json_schema", "schema": {"type": "object"}})"),
            R"({"type":"object"})");
  EXPECT_EQ(schema_of(R"({"type": "json_schema",
                          "json_schema": {"name": "n", "strict": true, "schema": {"b":1,"a":2}}})"),
            R"({"b":1,"a":2})");
}

TEST(ChatRequest, a_format_that_is_none_is_named) {
  const auto error = [](std::string_view format) {
    return refused(Dialect::kChat, chat("\"response_format\": " + std::string(format)));
  };
  EXPECT_EQ(error(R"({"type": "xml"})").param, "response_format.type");
  EXPECT_EQ(error("{}").param, "response_format.type");
  const ApiError none = error(R"({"type": "json_schema", "json_schema": {"name": "n"}})");
  EXPECT_EQ(none.kind, ErrorKind::kInvalidJsonSchema);
  EXPECT_EQ(none.param, "response_format.json_schema.schema");
  EXPECT_EQ(error(R"({"type": "json_schema", "json_schema": {"schema": 5}})").kind,
            ErrorKind::kInvalidJsonSchema);
}

TEST(ChatRequest, logprobs_in_both_spellings) {
  EXPECT_EQ(taken(Dialect::kChat, chat(R"("logprobs": true)")).logprobs, 0U);
  EXPECT_EQ(taken(Dialect::kChat, chat(R"("logprobs": true, "top_logprobs": 5)")).logprobs, 5U);
  EXPECT_EQ(taken(Dialect::kChat, chat(R"("logprobs": false)")).logprobs, std::nullopt);
  EXPECT_EQ(taken(Dialect::kChat, chat(R"("n_probs": 40)")).logprobs, 40U);
  EXPECT_EQ(taken(Dialect::kChat, chat(R"("top_logprobs": 0)")).logprobs, std::nullopt);
  EXPECT_EQ(refused(Dialect::kChat, chat(R"("top_logprobs": 2)")).param, "top_logprobs");
  EXPECT_EQ(refused(Dialect::kChat, chat(R"("logprobs": true, "top_logprobs": 21)")).param,
            "top_logprobs");
}

TEST(ChatRequest, the_templates_variables_and_thinking) {
  const auto chat_of = [](std::string_view fields) {
    return *taken(Dialect::kChat, chat(fields)).chat;
  };
  const ChatWish both = chat_of(
      R"("chat_template_kwargs": {"x": [1], "enable_thinking": false}, "reasoning_effort": "low")");
  EXPECT_EQ(to_line(both.template_kwargs),
            R"({"x":[1],"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_EQ(both.enable_thinking, false);
  const ChatWish none = chat_of(
      R"("chat_template_kwargs": {"reasoning_effort": "high"}, "reasoning_effort": "none")");
  EXPECT_EQ(none.enable_thinking, false);
  EXPECT_TRUE(none.template_kwargs.empty());
  EXPECT_EQ(chat_of(R"("think": true)").enable_thinking, true);
  EXPECT_EQ(to_line(chat_of(R"("think": "high")").template_kwargs),
            R"({"reasoning_effort":"high"})");
  EXPECT_EQ(chat_of(R"("reasoning_format": "deepseek")").reasoning_format, "deepseek");
  EXPECT_EQ(chat_of(R"("thinking_budget_tokens": 9)").reasoning_tokens_max, 9);
  EXPECT_EQ(chat_of(R"("reasoning_budget_tokens": -1)").reasoning_tokens_max, std::nullopt);
  EXPECT_EQ(chat_of(R"("reasoning_budget_message": "enough")").reasoning_budget_message, "enough");
  EXPECT_EQ(
      refused(Dialect::kChat, chat(R"("chat_template_kwargs": {"enable_thinking": "no"})")).param,
      "chat_template_kwargs.enable_thinking");
  EXPECT_EQ(refused(Dialect::kChat, chat(R"("reasoning_format": "x")")).param, "reasoning_format");
  EXPECT_EQ(refused(Dialect::kChat, chat(R"("reasoning_effort": 3)")).param, "reasoning_effort");
}

TEST(ChatRequest, a_last_message_of_the_assistant_goes_on) {
  const auto with_last = [](std::string_view fields) {
    return R"({"messages": [{"role": "user", "content": "x"},
                            {"role": "assistant", "content": "be"}])" +
           std::string(fields) + "}";
  };
  const ChatWish goes_on = *taken(Dialect::kChat, with_last("")).chat;
  EXPECT_EQ(goes_on.continuation, Continuation::kAuto);
  EXPECT_FALSE(goes_on.add_generation_prompt);
  const ChatWish not_so =
      *taken(Dialect::kChat, with_last(R"(, "continue_final_message": false)")).chat;
  EXPECT_EQ(not_so.continuation, Continuation::kNone);
  EXPECT_TRUE(not_so.add_generation_prompt);
  EXPECT_EQ(taken(Dialect::kChat, with_last(R"(, "continue_final_message": "reasoning_content")"))
                .chat->continuation,
            Continuation::kReasoning);
  EXPECT_EQ(refused(Dialect::kChat, with_last(R"(, "add_generation_prompt": true)")).param,
            "add_generation_prompt");
  EXPECT_EQ(refused(Dialect::kChat, chat(R"("continue_final_message": true)")).param,
            "continue_final_message");
  const ChatWish usual = *taken(Dialect::kChat, chat(R"("x": 1)")).chat;
  EXPECT_EQ(usual.continuation, Continuation::kNone);
  EXPECT_TRUE(usual.add_generation_prompt);
}

TEST(ChatRequest, other_media_and_old_functions_are_not_done) {
  for (const char* fields : {R"("modalities": ["text", "audio"])", R"("audio": {"voice": "x"})",
                             R"("web_search_options": {})", R"("functions": [{"name": "f"}])"}) {
    EXPECT_EQ(refused(Dialect::kChat, chat(fields)).kind, ErrorKind::kNotSupported) << fields;
  }
  taken(Dialect::kChat, chat(R"("modalities": ["text"], "audio": null, "functions": [])"));
}

}  // namespace
}  // namespace salvage::api
