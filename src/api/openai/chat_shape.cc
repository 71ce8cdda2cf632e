#include "api/openai/chat_shape.h"

#include <fmt/format.h>

#include "api/quote.h"

namespace salvage::api {

Json text_part(std::string_view text) {
  return {{"type", "text"}, {"text", text}};
}

Json content_of(Json parts) {
  if (parts.empty()) return "";
  if (parts.size() == 1) return std::move(parts[0]["text"]);
  return parts;
}

Json call_json(std::string_view id, std::string_view name, std::string_view arguments) {
  Json function{{"name", name}, {"arguments", arguments.empty() ? "{}" : arguments}};
  Json call{{"id", id}, {"type", "function"}};
  call["function"] = std::move(function);
  return call;
}

Json tool_json(std::string_view name, std::string_view description, const Json* parameters) {
  Json function{{"name", name}, {"description", description}};
  if (parameters != nullptr && parameters->is_object() && !parameters->empty()) {
    function["parameters"] = *parameters;
  } else {
    function["parameters"] = {{"type", "object"}, {"properties", Json::object()}};
  }
  Json tool = Json::object();
  tool["type"] = "function";
  tool["function"] = std::move(function);
  return tool;
}

void require_tool(const std::string& name, const std::string& param, Complaint& complaint,
                  ChatWish& chat) {
  for (Json& tool : chat.tools) {
    if (tool["function"]["name"] != name) continue;
    Json only = Json::array();
    only.push_back(std::move(tool));
    chat.tools = std::move(only);
    chat.tool_choice = ToolChoice::kRequired;
    return;
  }
  complaint.add(
      invalid_value(param, fmt::format("is {}, which is none of the tools", in_quotes(name))));
}

ApiError text_only(std::string param, std::string_view type, std::string_view model) {
  const std::string which =
      model.empty() ? "the model" : fmt::format("the model {}", in_quotes(model));
  return invalid_value(std::move(param),
                       fmt::format("is {}, but {} takes text only", in_quotes(type), which));
}

}  // namespace salvage::api
