#include "api/openai/tools.h"

#include <algorithm>

#include <fmt/format.h>

#include "api/limits.h"
#include "api/openai/chat_shape.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

void add_chat_tool(const Json& json, const std::string& path, const Fields& fields, Json& tools) {
  if (!json.is_object()) return fields.complaint().add(invalid_value(path, "must be an object"));
  const Fields tool(json, path + ".", fields.complaint());
  std::string type = "function";
  tool.text("type", type, kNameBytesMax);
  if (type != "function") {
    return tool.unsupported("type",
                            fmt::format("is {}; only functions are done here", in_quotes(type)));
  }
  const Json* function = tool.object("function");
  if (function == nullptr) return tool.missing("function");
  add_function(Fields(*function, tool.path("function."), fields.complaint()), tools);
}

// {"type": "function", "function": {"name"}} or {"type": "allowed_tools", "allowed_tools": {...}}.
void read_choice_object(const Json& json, const Fields& fields, ChatWish& chat) {
  const Fields choice(json, fields.path("tool_choice."), fields.complaint());
  std::string type = "function";
  choice.text("type", type, kNameBytesMax);
  if (type == "allowed_tools") {
    const Json* allowed = choice.object("allowed_tools");
    if (allowed == nullptr) return choice.missing("allowed_tools");
    const Fields nested(*allowed, choice.path("allowed_tools."), fields.complaint());
    return allow_tools(nested, "function", chat);
  }
  if (type != "function") {
    return choice.unsupported("type",
                              fmt::format("is {}; only functions are done here", in_quotes(type)));
  }
  const Json* function = choice.object("function");
  if (function == nullptr) return choice.missing("function");
  const Fields named(*function, choice.path("function."), fields.complaint());
  require_tool(needed_name(named, "name"), named.path("name"), fields.complaint(), chat);
}

void read_choice(const Fields& fields, ChatWish& chat) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_object()) return read_choice_object(*choice, fields, chat);
  if (choice->is_string() && take_choice_word(choice->get<std::string>(), chat)) return;
  fields.refuse("tool_choice", "must be auto, none, required or an object that names a function");
}

bool has_items(const Json* json) {
  return json != nullptr && !(json->is_structured() && json->empty());
}

}  // namespace

bool take_choice_word(const std::string& word, ChatWish& chat) {
  if (word == "auto") {
    chat.tool_choice = ToolChoice::kAuto;
  } else if (word == "none") {
    chat.tool_choice = ToolChoice::kNone;
  } else if (word == "required" || word == "any") {
    chat.tool_choice = ToolChoice::kRequired;
  } else {
    return false;
  }
  return true;
}

void add_function(const Fields& function, Json& tools) {
  const std::string name = needed_name(function, "name");
  std::string description;
  function.text("description", description, kBodyBytesMax);
  tools.push_back(tool_json(name, description, function.object("parameters")));
}

void allow_tools(const Fields& allowed, const char* nested, ChatWish& chat) {
  std::string mode = "auto";
  allowed.text("mode", mode, kNameBytesMax);
  if (!take_choice_word(mode, chat)) allowed.refuse("mode", "must be auto or required");
  const Json* list = allowed.array("tools");
  if (list == nullptr) return allowed.missing("tools");
  const auto is_allowed = [list, nested](const std::string& name) {
    return std::any_of(list->begin(), list->end(), [&](const Json& item) {
      if (!item.is_object()) return false;
      const Json& named = item.contains(nested) && item[nested].is_object() ? item[nested] : item;
      return named.contains("name") && named["name"] == name;
    });
  };
  Json kept = Json::array();
  for (Json& tool : chat.tools) {
    const auto name = tool["function"]["name"].get<std::string>();
    if (is_allowed(name)) kept.push_back(std::move(tool));
  }
  if (kept.empty()) return allowed.refuse("tools", "names none of the tools");
  chat.tools = std::move(kept);
}

void read_chat_tools(const Fields& fields, ChatWish& chat) {
  if (has_items(fields.find("functions"))) {
    fields.unsupported("functions", "isn't done here any more; send \"tools\"");
  }
  if (const Json* list = fields.array("tools")) {
    for (std::size_t i = 0; i < list->size() && !fields.complaint().any(); ++i) {
      add_chat_tool((*list)[i], item_path(fields.path("tools"), i), fields, chat.tools);
    }
  }
  fields.flag("parallel_tool_calls", chat.parallel_tool_calls);
  if (!fields.complaint().any()) read_choice(fields, chat);
}

}  // namespace salvage::api
