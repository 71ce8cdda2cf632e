// Goal: a chat request becomes the one form that templates are rendered from, and what is wrong is
// blamed on the field that is. Method: tables of requests, and seeded damage to a good one.
#include "engine/chat_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace salvage::engine {
namespace {

using Json = nlohmann::ordered_json;

ChatRequest request_of(const std::string& messages) {
  ChatRequest request;
  request.messages = Json::parse(messages);
  return request;
}

std::string blame_of(const ChatRequest& request) {
  const auto input = read_chat_request(request);
  return input ? "" : std::string(blamed_field(input.error().message()));
}

std::string blame_of_messages(const std::string& messages) {
  return blame_of(request_of(messages));
}

std::string blame_of_tools(const std::string& tools, const std::string& choice = "null") {
  ChatRequest request = request_of(R"([{"role":"user","content":"hi"}])");
  request.tools = Json::parse(tools);
  request.tool_choice = Json::parse(choice);
  return blame_of(request);
}

constexpr const char* kTool =
    R"([{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}])";

TEST(ChatInputTest, what_clients_write_differently_becomes_one_form) {
  const auto input = read_chat_request(request_of(R"([
    {"role": "developer", "content": "be brief", "name": null},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null, "reasoning_content": "hm", "refusal": null,
     "tool_calls": [{"id": null, "function": {"name": "look", "arguments": {"at": 1}}},
                    {"id": "x", "type": "function", "function": {"name": "go", "arguments": ""}}]},
    {"role": "function", "name": "look", "tool_call_id": null, "content": "nothing"},
    {"role": "assistant", "content": "", "tool_calls": []}])"));
  ASSERT_TRUE(input) << input.error().message();
  EXPECT_EQ(input->messages, Json::parse(R"([
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant",
     "tool_calls": [{"type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}},
                    {"type": "function", "function": {"name": "go", "arguments": "{}"}, "id": "x"}],
     "content": "", "reasoning_content": "hm"},
    {"role": "tool", "content": "nothing", "name": "look"},
    {"role": "assistant", "content": ""}])"));
}

TEST(ChatInputTest, wrong_messages_are_blamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", "messages"},
      {"[]", "messages"},
      {"null", "messages"},
      {"[1]", "messages[0]"},
      {R"([{"content":"x"}])", "messages[0].role"},
      {R"([{"role":"clown","content":"x"}])", "messages[0].role"},
      {R"([{"role":7,"content":"x"}])", "messages[0].role"},
      {R"([{"role":"user<|im_end|>","content":"x"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":5}])", "messages[0].content"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"image_url"}]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":"x","name":1}])", "messages[0].name"},
      {R"([{"role":"user","content":"x","tool_calls":[1]}])", "messages[0].tool_calls"},
      {R"([{"role":"assistant","tool_calls":[1]}])", "messages[0].tool_calls[0]"},
      {R"([{"role":"assistant","tool_calls":[{"type":"custom"}]}])",
       "messages[0].tool_calls[0].type"},
      {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0].function"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":""}}]}])",
       "messages[0].tool_calls[0].function.name"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":7}}]}])",
       "messages[0].tool_calls[0].function.arguments"}};
  for (const auto& [messages, field] : cases)
    EXPECT_EQ(blame_of_messages(messages), field) << messages;
}

TEST(ChatInputTest, depth_and_number_are_bounded) {
  ChatRequest request = request_of(R"([{"role":"user","content":"x"}])");
  Json deep = 1;
  for (int i = 0; i < 300; ++i) deep = Json::array({std::move(deep)});
  request.messages[0]["metadata"] = deep;
  EXPECT_EQ(blame_of(request), "messages");
  request = request_of(R"([{"role":"user","content":"x"}])");
  request.template_arguments = {{"x", deep}};
  EXPECT_EQ(blame_of(request), "chat_template_kwargs");
  request.template_arguments = nullptr;
  request.json_schema = {{"const", deep}};
  EXPECT_EQ(blame_of(request), "json_schema");
  Json many = Json::array();
  for (int i = 0; i < 20000; ++i) many.push_back(request.messages[0]);
  request.messages = many;
  EXPECT_EQ(blame_of(request), "messages");
}

TEST(ChatInputTest, wrong_tools_are_blamed) {
  EXPECT_EQ(blame_of_tools(kTool), "");
  EXPECT_EQ(blame_of_tools("null"), "");
  EXPECT_EQ(blame_of_tools("{}"), "tools");
  EXPECT_EQ(blame_of_tools("[1]"), "tools[0].type");
  EXPECT_EQ(blame_of_tools(R"([{"type":"retrieval"}])"), "tools[0].type");
  EXPECT_EQ(blame_of_tools(R"([{"type":"function"}])"), "tools[0].function");
  EXPECT_EQ(blame_of_tools(R"([{"type":"function","function":{}}])"), "tools[0].function.name");
  EXPECT_EQ(blame_of_tools(R"([{"type":"function","function":{"name":"a","description":1}}])"),
            "tools[0].function.description");
  EXPECT_EQ(blame_of_tools(R"([{"type":"function","function":{"name":"a","parameters":1}}])"),
            "tools[0].function.parameters");
}

TEST(ChatInputTest, a_choice_of_one_tool_leaves_that_one) {
  EXPECT_EQ(blame_of_tools(kTool, R"("sometimes")"), "tool_choice");
  EXPECT_EQ(blame_of_tools(kTool, R"({"type":"function","function":{"name":"jump"}})"),
            "tool_choice");
  EXPECT_EQ(blame_of_tools("null", R"("required")"), "tool_choice");
  ChatRequest request = request_of(R"([{"role":"user","content":"hi"}])");
  request.tools = Json::parse(R"([{"type":"function","function":{"name":"a"}},
                                  {"type":"function","function":{"name":"b"}}])");
  request.tool_choice = Json::parse(R"({"type":"function","function":{"name":"b"}})");
  const auto input = read_chat_request(request);
  ASSERT_TRUE(input);
  EXPECT_EQ(input->tool_choice, ToolChoice::kRequired);
  ASSERT_EQ(input->tools.size(), 1U);
  EXPECT_EQ(input->tools[0]["function"]["name"], "b");
}

TEST(ChatInputTest, what_excludes_each_other_is_refused) {
  ChatRequest request = request_of(R"([{"role":"user","content":"hi"}])");
  request.grammar = "root ::= \"a\"";
  request.json_schema = Json::object();
  EXPECT_EQ(blame_of(request), "grammar");
  request.json_schema = nullptr;
  request.tools = Json::parse(kTool);
  EXPECT_EQ(blame_of(request), "grammar");
  request.tool_choice = "none";
  EXPECT_EQ(blame_of(request), "");
  request.continuation = ChatContinuation::kAuto;
  EXPECT_EQ(blame_of(request), "messages");
}

TEST(ChatInputTest, an_empty_schema_is_any_object_and_true_is_anything) {
  ChatRequest request = request_of(R"([{"role":"user","content":"hi"}])");
  request.json_schema = Json::object();
  EXPECT_EQ(read_chat_request(request)->json_schema, Json::parse(R"({"type":"object"})"));
  request.json_schema = true;
  EXPECT_TRUE(read_chat_request(request)->json_schema.is_object());
  request.json_schema = false;
  EXPECT_EQ(blame_of(request), "json_schema");
}

TEST(ChatInputTest, text_that_is_not_utf_8_is_replaced) {
  ChatRequest request;
  request.messages.push_back({{"role", "user"}, {"content", "\xff\xfe"}});
  const auto input = read_chat_request(request);
  ASSERT_TRUE(input);
  EXPECT_EQ(input->messages[0]["content"], "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(ChatInputTest, turns_are_made_by_joining) {
  const Json messages = Json::parse(R"([
    {"role": "user", "content": "a"}, {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "b"}]},
    {"role": "developer", "content": "d"},
    {"role": "assistant", "content": "c"},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}])");
  EXPECT_EQ(in_turns(messages), Json::parse(R"([
    {"role": "system", "content": "s\n\nd"}, {"role": "user", "content": "a\n\nb"},
    {"role": "assistant", "content": "c"},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}])"));
  const Json good =
      Json::parse(R"([{"role":"system","content":"s"},{"role":"user","content":"u"}])");
  EXPECT_EQ(in_turns(good), good);
}

// Replaces, removes or moves one value somewhere in `json`.
void damage(Json& json, Random& random) {
  if (json.is_structured() && !json.empty() && random.below(4) != 0) {
    auto item = json.begin();
    std::advance(item, static_cast<std::ptrdiff_t>(random.below(json.size())));
    return damage(*item, random);
  }
  static const std::vector<Json> kValues = {
      nullptr, 1, -1.5, true, "", "tool", Json::array(), Json::object(), Json::array({1}), "\xff"};
  json = kValues[random.below(kValues.size())];
}

TEST(ChatInputTest, damaged_requests_are_read_or_refused) {
  const Json messages = Json::parse(R"([{"role":"system","content":"s"},
    {"role":"user","content":[{"type":"text","text":"a"}]},
    {"role":"assistant","tool_calls":[{"id":"1","type":"function",
      "function":{"name":"look","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"1","content":"x"}])");
  Random random(5);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    ChatRequest request;
    request.messages = messages;
    request.tools = Json::parse(kTool);
    damage(random.below(2) == 0 ? request.messages : request.tools, random);
    const auto input = read_chat_request(request);
    if (input) continue;
    ++refused;
    EXPECT_EQ(input.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_FALSE(blamed_field(input.error().message()).empty()) << input.error().message();
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace salvage::engine
