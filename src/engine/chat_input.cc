#include "engine/chat_input.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"
#include "engine/schema_limits.h"

namespace salvage::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMessageCountMax = 16384;
constexpr std::size_t kToolCountMax = 512;
constexpr std::size_t kToolNameBytesMax = 256;
constexpr std::size_t kToolNodesMax = 65536;
constexpr std::size_t kWordBytesMax = 64;
constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

tl::unexpected<Error> blame(const std::string& field, std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", field, why));
}

// `value` with everything that is not UTF-8 replaced.
void make_well_formed(Json& value) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    if (!valid_utf8(text)) text = well_formed_utf8(text);
  } else if (value.is_array()) {
    for (Json& item : value) make_well_formed(item);
  } else if (value.is_object()) {
    Json object = Json::object();
    for (auto item = value.begin(); item != value.end(); ++item) {
      make_well_formed(item.value());
      object[well_formed_utf8(item.key())] = std::move(item.value());
    }
    value = std::move(object);
  }
}

// A member that may be absent or null; null if it is.
const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// One object of the request, and where it stands in it.
struct Place {
  const Json& json;
  std::string path;

  std::string field(std::string_view key) const { return fmt::format("{}.{}", path, key); }
};

// Copies a member that is text, if it is there.
Result<void> copy_text(const Place& from, const char* key, Json& to) {
  const Json* value = member(from.json, key);
  if (value == nullptr) return {};
  if (!value->is_string()) return blame(from.field(key), "must be a string");
  to[key] = *value;
  return {};
}

Result<Json> read_content(const Place& message) {
  const Json* content = member(message.json, "content");
  if (content == nullptr) return Json("");
  if (content->is_string()) return *content;
  const std::string field = message.field("content");
  if (!content->is_array()) return blame(field, "must be a string or an array of parts");
  Json parts = Json::array();
  for (std::size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string path = fmt::format("{}[{}]", field, i);
    const Json* type = part.is_object() ? member(part, "type") : nullptr;
    if (type == nullptr || !type->is_string()) return blame(path, "a part has a type");
    if (*type != "text") return blame(path, "this model reads text only");
    const Json* text = member(part, "text");
    if (text == nullptr || !text->is_string()) return blame(path + ".text", "must be a string");
    parts.push_back({{"type", "text"}, {"text", *text}});
  }
  return parts;
}

Result<Json> read_tool_call(const Place& call) {
  if (!call.json.is_object()) return blame(call.path, "must be an object");
  const Json* type = member(call.json, "type");
  if (type != nullptr && *type != "function") return blame(call.field("type"), "must be function");
  const Json* function = member(call.json, "function");
  if (function == nullptr || !function->is_object()) {
    return blame(call.field("function"), "must be an object");
  }
  const Place place{*function, call.field("function")};
  const Json* name = member(*function, "name");
  if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>().empty()) {
    return blame(place.field("name"), "must be a string");
  }
  const Json* arguments = member(*function, "arguments");
  std::string text = "{}";
  if (arguments != nullptr && arguments->is_string()) {
    if (!arguments->get_ref<const std::string&>().empty()) text = arguments->get<std::string>();
  } else if (arguments != nullptr) {
    if (!arguments->is_object()) return blame(place.field("arguments"), "must be JSON in a string");
    text = arguments->dump();
  }
  Json result{{"type", "function"}, {"function", {{"name", *name}, {"arguments", text}}}};
  RETURN_IF_ERROR(copy_text(call, "id", result));
  return result;
}

Result<void> read_tool_calls(const Place& message, Json& result) {
  const Json* calls = member(message.json, "tool_calls");
  if (calls == nullptr) return {};
  const std::string field = message.field("tool_calls");
  if (!calls->is_array()) return blame(field, "must be an array");
  if (calls->empty()) return {};
  if (result["role"] != "assistant") return blame(field, "only an assistant calls tools");
  Json list = Json::array();
  for (std::size_t i = 0; i < calls->size(); ++i) {
    ASSIGN_OR_RETURN(Json call, read_tool_call({(*calls)[i], fmt::format("{}[{}]", field, i)}));
    list.push_back(std::move(call));
  }
  result["tool_calls"] = std::move(list);
  return {};
}

Result<Json> read_message(const Place& message) {
  if (!message.json.is_object()) return blame(message.path, "must be an object");
  const Json* role = member(message.json, "role");
  const bool known =
      role != nullptr && role->is_string() &&
      std::find(kRoles.begin(), kRoles.end(), role->get_ref<const std::string&>()) != kRoles.end();
  if (!known) {
    return blame(message.field("role"), "must be one of system, developer, user, assistant, tool");
  }
  Json result{{"role", *role == "function" ? Json("tool") : *role}};
  RETURN_IF_ERROR(read_tool_calls(message, result));
  if (!message.json.contains("content") && !result.contains("tool_calls")) {
    return blame(message.field("content"), "is missing");
  }
  ASSIGN_OR_RETURN(result["content"], read_content(message));
  for (const char* key : {"reasoning_content", "tool_call_id", "name"}) {
    RETURN_IF_ERROR(copy_text(message, key, result));
  }
  return result;
}

Result<Json> read_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty()) {
    return blame("messages", "must be an array of at least one message");
  }
  if (messages.size() > kMessageCountMax) {
    return blame("messages", fmt::format("{} messages; at most {} can be used", messages.size(),
                                         kMessageCountMax));
  }
  if (json_is_deep(messages)) return blame("messages", "is nested too deep");
  Json result = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ASSIGN_OR_RETURN(Json message, read_message({messages[i], fmt::format("messages[{}]", i)}));
    result.push_back(std::move(message));
  }
  make_well_formed(result);
  return result;
}

// `nodes` counts the values of all schemas together.
Result<Json> read_tool(const Place& tool, std::size_t& nodes) {
  const Json* type = tool.json.is_object() ? member(tool.json, "type") : nullptr;
  if (type == nullptr || *type != "function") return blame(tool.field("type"), "must be function");
  const Json* function = member(tool.json, "function");
  if (function == nullptr || !function->is_object()) {
    return blame(tool.field("function"), "must be an object");
  }
  const Place place{*function, tool.field("function")};
  const Json* name = member(*function, "name");
  const std::size_t name_bytes =
      name != nullptr && name->is_string() ? name->get_ref<const std::string&>().size() : 0;
  if (name_bytes == 0 || name_bytes > kToolNameBytesMax) {
    return blame(place.field("name"),
                 fmt::format("must be a string of 1 to {} bytes", kToolNameBytesMax));
  }
  Json result{{"name", *name}};
  RETURN_IF_ERROR(copy_text(place, "description", result));
  const Json* parameters = member(*function, "parameters");
  if (parameters != nullptr) {
    const auto count = check_schema(*parameters);
    if (!count) return blame(place.field("parameters"), count.error().message());
    nodes += *count;
    result["parameters"] = *parameters;
  }
  return Json{{"type", "function"}, {"function", std::move(result)}};
}

Result<Json> read_tools(const Json& tools) {
  Json result = Json::array();
  if (tools.is_null()) return result;
  if (!tools.is_array()) return blame("tools", "must be an array");
  if (tools.size() > kToolCountMax) {
    return blame("tools",
                 fmt::format("{} tools; at most {} can be used", tools.size(), kToolCountMax));
  }
  if (json_is_deep(tools)) return blame("tools", "is nested too deep");
  std::size_t nodes = 0;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    ASSIGN_OR_RETURN(Json tool, read_tool({tools[i], fmt::format("tools[{}]", i)}, nodes));
    if (nodes > kToolNodesMax) return blame("tools", "their schemas are too large together");
    result.push_back(std::move(tool));
  }
  make_well_formed(result);
  return result;
}

// A choice that names one tool leaves that tool alone in `tools`.
Result<ToolChoice> read_tool_choice(const Json& choice, Json& tools) {
  if (choice.is_null() || choice == "auto") return ToolChoice::kAuto;
  if (choice == "none") return ToolChoice::kNone;
  if (choice == "required") {
    if (tools.empty()) return blame("tool_choice", "requires a tool, but there are no tools");
    return ToolChoice::kRequired;
  }
  const Json* function = choice.is_object() ? member(choice, "function") : nullptr;
  const Json* name =
      function != nullptr && function->is_object() ? member(*function, "name") : nullptr;
  if (name == nullptr || !name->is_string()) {
    return blame("tool_choice", "must be auto, none, required, or name a function");
  }
  Json chosen = Json::array();
  for (const Json& tool : tools) {
    if (tool["function"]["name"] == *name) chosen.push_back(tool);
  }
  if (chosen.empty()) return blame("tool_choice", "names a function that is not among the tools");
  tools = std::move(chosen);
  return ToolChoice::kRequired;
}

Result<Json> read_schema(const ChatRequest& request) {
  if (request.json_schema.is_null()) return Json();
  if (!request.grammar.empty()) return blame("grammar", "excludes json_schema; send one of them");
  if (request.json_schema.is_boolean() && request.json_schema.get<bool>()) {
    return Json{{"description", ""}};  // what libllama's converter takes for anything
  }
  const auto count = check_schema(request.json_schema);
  if (!count) return blame("json_schema", count.error().message());
  Json schema = request.json_schema;
  if (schema.empty()) schema["type"] = "object";
  make_well_formed(schema);
  return schema;
}

Result<Json> read_template_arguments(const ChatRequest& request) {
  const std::string field = "chat_template_kwargs";
  Json result = request.template_arguments.is_null() ? Json::object() : request.template_arguments;
  if (!result.is_object()) return blame(field, "must be an object");
  if (json_is_deep(result)) return blame(field, "is nested too deep");
  const Json* thinking = member(result, "enable_thinking");
  if (thinking != nullptr && !thinking->is_boolean()) {
    return blame(field + ".enable_thinking", "must be true or false");
  }
  if (request.reasoning_effort.size() > kWordBytesMax) {
    return blame("reasoning_effort", "is too long");
  }
  make_well_formed(result);
  return result;
}

std::string text_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    if (!text.empty()) text += '\n';
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

bool joins(const Json& before, const Json& after) {
  const auto plain = [](const Json& message) {
    return !message.contains("tool_calls") && message["role"] != "tool";
  };
  return before["role"] == after["role"] && plain(before) && plain(after);
}

}  // namespace

Result<ChatInput> read_chat_request(const ChatRequest& request) {
  ChatInput input;
  ASSIGN_OR_RETURN(input.messages, read_messages(request.messages));
  ASSIGN_OR_RETURN(input.tools, read_tools(request.tools));
  ASSIGN_OR_RETURN(input.tool_choice, read_tool_choice(request.tool_choice, input.tools));
  ASSIGN_OR_RETURN(input.json_schema, read_schema(request));
  ASSIGN_OR_RETURN(input.template_arguments, read_template_arguments(request));
  if (!request.grammar.empty() && !input.tools.empty() && input.tool_choice != ToolChoice::kNone) {
    return blame("grammar", "excludes tools; send one of them");
  }
  const Json& last = input.messages.back();
  if (request.continuation != ChatContinuation::kNone &&
      (last["role"] != "assistant" || last.contains("tool_calls"))) {
    return blame("messages",
                 "only an assistant's last message without tool calls can be continued");
  }
  return input;
}

Json in_turns(const Json& messages) {
  Json ordered = Json::array();
  const auto is_system = [](const Json& message) {
    return message["role"] == "system" || message["role"] == "developer";
  };
  for (const Json& message : messages) {
    if (is_system(message)) ordered.push_back(message);
  }
  for (Json& message : ordered) message["role"] = "system";
  for (const Json& message : messages) {
    if (!is_system(message)) ordered.push_back(message);
  }
  Json result = Json::array();
  for (Json& message : ordered) {
    if (!result.empty() && joins(result.back(), message)) {
      Json& before = result.back();
      before["content"] = text_of(before["content"]) + "\n\n" + text_of(message["content"]);
    } else {
      result.push_back(std::move(message));
    }
  }
  return result;
}

}  // namespace salvage::engine
