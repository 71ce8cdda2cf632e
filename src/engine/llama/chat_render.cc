#include "engine/llama/chat_render.h"

#include <exception>
#include <map>
#include <string>

#include <fmt/format.h>
#include <json-schema-to-grammar.h>

#include "engine/llama/grammar_check.h"
#include "engine/schema_limits.h"

namespace salvage::engine {
namespace {

using Json = nlohmann::ordered_json;

common_json to_common(const Json& json) {
  return common_json::parse(json.dump());
}

common_chat_tool_choice to_common(ToolChoice choice) {
  switch (choice) {
    case ToolChoice::kNone:
      return COMMON_CHAT_TOOL_CHOICE_NONE;
    case ToolChoice::kRequired:
      return COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    case ToolChoice::kAuto:
      break;
  }
  return COMMON_CHAT_TOOL_CHOICE_AUTO;
}

common_chat_continuation to_common(ChatContinuation continuation) {
  switch (continuation) {
    case ChatContinuation::kAuto:
      return COMMON_CHAT_CONTINUATION_AUTO;
    case ChatContinuation::kContent:
      return COMMON_CHAT_CONTINUATION_CONTENT;
    case ChatContinuation::kReasoning:
      return COMMON_CHAT_CONTINUATION_REASONING;
    case ChatContinuation::kNone:
      break;
  }
  return COMMON_CHAT_CONTINUATION_NONE;
}

std::map<std::string, std::string> template_arguments(const ChatRequest& request,
                                                      const Json& given) {
  std::map<std::string, std::string> arguments;
  for (auto item = given.begin(); item != given.end(); ++item) {
    arguments[item.key()] = item->dump();
  }
  if (request.reasoning_effort == "none") arguments.erase("reasoning_effort");
  if (!request.reasoning_effort.empty() && request.reasoning_effort != "none") {
    arguments["reasoning_effort"] = Json(request.reasoning_effort).dump();
  }
  return arguments;
}

common_chat_templates_inputs inputs_of(const RenderSettings& settings, const ChatRequest& request,
                                       const ChatInput& input) {
  common_chat_templates_inputs inputs;
  inputs.messages = common_chat_msgs_parse_oaicompat(to_common(input.messages));
  inputs.tools = common_chat_tools_parse_oaicompat(to_common(input.tools));
  inputs.tool_choice = to_common(input.tool_choice);
  inputs.parallel_tool_calls = settings.parallel_tool_calls;
  if (!input.json_schema.is_null()) inputs.json_schema = input.json_schema.dump();
  inputs.grammar = request.grammar;
  inputs.use_jinja = true;
  inputs.continue_final_message = to_common(request.continuation);
  inputs.add_generation_prompt =
      request.add_generation_prompt && request.continuation == ChatContinuation::kNone;
  inputs.reasoning_format =
      request.split_reasoning ? COMMON_REASONING_FORMAT_DEEPSEEK : COMMON_REASONING_FORMAT_NONE;
  inputs.enable_thinking = settings.enable_thinking;
  inputs.chat_template_kwargs = template_arguments(request, input.template_arguments);
  return inputs;
}

// Why libllama-common's converter does not take a schema; empty if it does.
std::string conversion_problem(const Json& schema) {
  try {
    (void)json_schema_to_grammar(to_common(schema));
    return {};
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

// Finds out what was to blame, now that something was.
Error blamed(const ChatInput& input, const char* what) {
  if (!input.json_schema.is_null()) {
    const std::string problem = conversion_problem(input.json_schema);
    if (!problem.empty()) return {ErrorCode::kInvalidArgument, "json_schema: " + problem};
  }
  for (std::size_t i = 0; i < input.tools.size(); ++i) {
    const Json& function = input.tools[i]["function"];
    if (!function.contains("parameters")) continue;
    const std::string problem = conversion_problem(function["parameters"]);
    if (!problem.empty()) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("tools[{}].function.parameters: {}", i, problem)};
    }
  }
  return {ErrorCode::kInvalidArgument,
          fmt::format("messages: the model's chat template refused them: {}", what)};
}

}  // namespace

Result<common_chat_params> render_chat(const RenderSettings& settings, const ChatRequest& request,
                                       const ChatInput& input) {
  try {
    return common_chat_templates_apply(settings.templates, inputs_of(settings, request, input));
  } catch (const std::exception& thrown) {
    return fail(blamed(input, thrown.what()));
  }
}

Result<std::string> grammar_of_schema(const llama_vocab* vocabulary, const Json& schema) {
  const auto counted = check_schema(schema);
  if (!counted) return fail(counted.error());
  try {
    std::string grammar = json_schema_to_grammar(to_common(schema));
    RETURN_IF_ERROR(check_grammar(vocabulary, grammar));
    return grammar;
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInvalidArgument, thrown.what());
  }
}

}  // namespace salvage::engine
