#include "api/openai/responses_request.h"

#include <algorithm>

#include <fmt/format.h>

#include "api/common_fields.h"
#include "api/limits.h"
#include "api/openai/chat_shape.h"
#include "api/openai/response_format.h"
#include "api/openai/responses_input.h"
#include "api/openai/template_options.h"
#include "api/openai/tools.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

// What would need memory of earlier requests, or somebody to work while the client is away.
void refuse_state(const Fields& fields) {
  for (const char* key : {"previous_response_id", "conversation", "prompt"}) {
    const Json* found = fields.find(key);
    if (found == nullptr || (found->is_string() && *found == "")) continue;
    fields.unsupported(key, "isn't done here: nothing is kept; send the whole input");
  }
  bool background = false;
  fields.flag("background", background);
  if (background) fields.unsupported("background", "isn't done here: the answer must be read");
}

// A tool of free text ("custom") becomes a function of one text; its calls are turned back.
void add_custom_tool(const Fields& tool, GenerateRequest& request) {
  std::string name = needed_name(tool, "name");
  std::string description;
  tool.text("description", description, kBodyBytesMax);
  const Json parameters{{"type", "object"},
                        {"properties", {{"input", {{"type", "string"}}}}},
                        {"required", Json::array({"input"})}};
  request.chat->tools.push_back(tool_json(name, description, &parameters));
  request.custom_tools.push_back(std::move(name));
}

void add_responses_tool(const Json& json, const std::string& path, const Fields& fields,
                        GenerateRequest& request) {
  if (!json.is_object()) return fields.complaint().add(invalid_value(path, "must be an object"));
  const Fields tool(json, path + ".", fields.complaint());
  std::string type;
  if (!tool.text("type", type, kNameBytesMax)) return tool.missing("type");
  if (type == "function") return add_function(tool, request.chat->tools);
  if (type == "custom") return add_custom_tool(tool, request);
  // Others are run by OpenAI's own machines. Agents offer them always; a model that isn't told of
  // them answers without.
}

void read_choice_of_tool(const Fields& fields, ChatWish& chat) {
  const Json* found = fields.find("tool_choice");
  if (found == nullptr) return;
  if (found->is_string() && take_choice_word(found->get<std::string>(), chat)) return;
  if (!found->is_object()) {
    return fields.refuse("tool_choice", "must be auto, none, required or an object");
  }
  const Fields choice(*found, fields.path("tool_choice."), fields.complaint());
  std::string type;
  choice.text("type", type, kNameBytesMax);
  if (type == "allowed_tools") return allow_tools(choice, "function", chat);
  if (type != "function" && type != "custom") {
    return choice.unsupported("type",
                              fmt::format("is {}; only functions are done here", in_quotes(type)));
  }
  require_tool(needed_name(choice, "name"), choice.path("name"), fields.complaint(), chat);
}

void read_responses_tools(const Fields& fields, GenerateRequest& request) {
  if (const Json* list = fields.array("tools")) {
    for (std::size_t i = 0; i < list->size() && !fields.complaint().any(); ++i) {
      add_responses_tool((*list)[i], item_path(fields.path("tools"), i), fields, request);
    }
  }
  fields.flag("parallel_tool_calls", request.chat->parallel_tool_calls);
  if (!fields.complaint().any()) read_choice_of_tool(fields, *request.chat);
}

void read_text_and_reasoning(const Fields& fields, GenerateRequest& request) {
  if (const Json* text = fields.object("text")) {
    const Fields nested(*text, fields.path("text."), fields.complaint());
    if (const Json* format = nested.object("format")) {
      read_format(Fields(*format, nested.path("format."), fields.complaint()), request);
    }
  }
  if (const Json* reasoning = fields.object("reasoning")) {
    const Fields nested(*reasoning, fields.path("reasoning."), fields.complaint());
    std::string effort;
    if (nested.text("effort", effort, kNameBytesMax)) take_effort(effort, *request.chat);
  }
}

// Logprobs are asked for by name in "include"; "top_logprobs" says how many alternatives.
void read_responses_logprobs(const Fields& fields, GenerateRequest& request) {
  std::uint32_t top = 0;
  fields.whole("top_logprobs", top, {0, kTopLogprobsMax});
  const Json* include = fields.array("include");
  const bool is_included =
      include != nullptr && std::any_of(include->begin(), include->end(), [](const Json& item) {
        return item == "message.output_text.logprobs";
      });
  if (is_included) request.logprobs = top;
}

// An answer repeats what it was asked; clients with strict types need these fields to be there.
void keep_echo(const Fields& fields, GenerateRequest& request) {
  const std::pair<const char*, Json> echoed[] = {
      {"instructions", nullptr},    {"max_output_tokens", nullptr},
      {"metadata", Json::object()}, {"parallel_tool_calls", true},
      {"temperature", nullptr},     {"tool_choice", "auto"},
      {"tools", Json::array()},     {"top_p", nullptr},
  };
  for (const auto& [key, otherwise] : echoed) {
    const Json* given = fields.find(key);
    request.response_echo[key] = given == nullptr ? otherwise : *given;
  }
}

}  // namespace

void read_responses_request(const Fields& fields, const ParseLimits& limits,
                            GenerateRequest& request) {
  refuse_state(fields);
  read_common_fields(fields, limits, request);
  if (request.choices != 1) fields.refuse("n", "must be 1: a response has one answer");
  read_tokens_max(fields, {"max_output_tokens", "n_predict", "max_tokens"}, request);
  read_stop(fields, "stop", request.stop);
  ChatWish& chat = request.chat.emplace();
  chat.messages = read_responses_input(fields, request.model);
  read_responses_tools(fields, request);
  read_template_options(fields, chat);
  read_text_and_reasoning(fields, request);
  read_responses_logprobs(fields, request);
  read_continuation(fields, chat);
  check_one_constraint(fields, request);
  keep_echo(fields, request);
}

}  // namespace salvage::api
