#include "api/anthropic/messages_request.h"

#include <limits>

#include <fmt/format.h>

#include "api/anthropic/blocks.h"
#include "api/common_fields.h"
#include "api/limits.h"
#include "api/openai/chat_shape.h"
#include "api/openai/response_format.h"
#include "api/openai/template_options.h"
#include "api/openai/tools.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

void add_messages_tool(const Json& json, const std::string& path, const Fields& fields,
                       Json& tools) {
  if (!json.is_object()) return fields.complaint().add(invalid_value(path, "must be an object"));
  const Fields tool(json, path + ".", fields.complaint());
  std::string type = "custom";
  tool.text("type", type, kNameBytesMax);
  if (type != "custom") {
    return tool.unsupported(
        "type", fmt::format("is {}; only tools of the client are done here", in_quotes(type)));
  }
  const std::string name = needed_name(tool, "name");
  std::string description;
  tool.text("description", description, kBodyBytesMax);
  tools.push_back(tool_json(name, description, tool.object("input_schema")));
}

void read_choice_of_messages(const Fields& fields, ChatWish& chat) {
  const Json* found = fields.object("tool_choice");
  if (found == nullptr) return;
  const Fields choice(*found, fields.path("tool_choice."), fields.complaint());
  bool is_single = false;
  if (choice.flag("disable_parallel_tool_use", is_single)) chat.parallel_tool_calls = !is_single;
  std::string type;
  if (!choice.text("type", type, kNameBytesMax)) return choice.missing("type");
  if (type == "tool") {
    return require_tool(needed_name(choice, "name"), choice.path("name"), fields.complaint(), chat);
  }
  if (!take_choice_word(type, chat)) choice.refuse("type", "must be auto, any, tool or none");
}

void read_messages_tools(const Fields& fields, ChatWish& chat) {
  if (const Json* list = fields.array("tools")) {
    for (std::size_t i = 0; i < list->size() && !fields.complaint().any(); ++i) {
      add_messages_tool((*list)[i], item_path(fields.path("tools"), i), fields, chat.tools);
    }
  }
  const Json* servers = fields.array("mcp_servers");
  if (servers != nullptr && !servers->empty()) {
    fields.unsupported("mcp_servers", "isn't done here: tools are the client's to call");
  }
  if (!fields.complaint().any()) read_choice_of_messages(fields, chat);
}

// {"type": "enabled", "budget_tokens"}, "disabled", or "adaptive": as the model will.
void read_thinking(const Fields& fields, ChatWish& chat) {
  const Json* found = fields.object("thinking");
  if (found == nullptr) return;
  const Fields thinking(*found, fields.path("thinking."), fields.complaint());
  std::string type;
  if (!thinking.text("type", type, kNameBytesMax)) return thinking.missing("type");
  if (type == "disabled") {
    chat.enable_thinking = false;
  } else if (type == "enabled") {
    chat.enable_thinking = true;
    thinking.whole("budget_tokens", chat.reasoning_tokens_max,
                   {0, std::numeric_limits<std::int32_t>::max()});
  } else if (type != "adaptive") {
    thinking.refuse("type", "must be enabled, disabled or adaptive");
  }
}

// The older place of a format, and the newer one, which has an effort too.
void read_output_config(const Fields& fields, GenerateRequest& request) {
  if (const Json* format = fields.object("output_format")) {
    read_format(Fields(*format, fields.path("output_format."), fields.complaint()), request);
  }
  const Json* found = fields.object("output_config");
  if (found == nullptr) return;
  const Fields config(*found, fields.path("output_config."), fields.complaint());
  if (const Json* format = config.object("format")) {
    read_format(Fields(*format, config.path("format."), fields.complaint()), request);
  }
  std::string effort;
  if (config.text("effort", effort, kNameBytesMax)) take_effort(effort, *request.chat);
}

}  // namespace

void read_messages_request(const Fields& fields, const ParseLimits& limits,
                           GenerateRequest& request) {
  read_common_fields(fields, limits, request);
  if (request.choices != 1) fields.refuse("n", "must be 1: a message has one answer");
  read_tokens_max(fields, {"max_tokens", "n_predict"}, request);
  read_stop(fields, "stop_sequences", request.stop);
  if (const Json* metadata = fields.object("metadata")) {
    read_user(Fields(*metadata, fields.path("metadata."), fields.complaint()), "user_id", request);
  }
  ChatWish& chat = request.chat.emplace();
  chat.messages = read_anthropic_messages(fields, request.model);
  read_messages_tools(fields, chat);
  read_template_options(fields, chat);
  read_thinking(fields, chat);
  read_output_config(fields, request);
  read_continuation(fields, chat);
  check_one_constraint(fields, request);
}

}  // namespace salvage::api
