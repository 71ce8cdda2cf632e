// Any JSON, read as a chat request, and any text as a grammar's: read or refused. What is read goes
// through the shield of control tokens and comes back as it was, with no control token in it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "engine/chat_input.h"
#include "engine/markers.h"
#include "engine/schema_limits.h"
#include "engine/shield.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace salvage::engine;
  using Json = nlohmann::ordered_json;
  static const Markers kMarkers({{.text = "<|im_end|>"},
                                 {.text = "</s>", .strips_left = true, .strips_right = true},
                                 {.text = "[INST]"},
                                 {.text = "<|start|>", .always = true}});
  static const std::vector<std::string> kTags = {"</think>"};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)check_grammar_text(text);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return 0;
  (void)check_schema(json);
  ChatRequest request;
  request.messages = json;
  if (json.is_object()) {
    request.messages = json.value("messages", Json::array());
    request.tools = json.value("tools", Json());
    request.tool_choice = json.value("tool_choice", Json());
    request.json_schema = json.value("json_schema", Json());
    request.template_arguments = json.value("template_arguments", Json());
  }
  auto input = read_chat_request(request);
  if (!input) return 0;
  (void)in_turns(input->messages);
  Shield shield(kMarkers, kTags);
  if (!shield.prepare({&input->messages, &input->tools})) return 0;
  Json shielded = input->messages;
  (void)shield.apply(shielded);
  std::string rendered;
  std::string plain;
  for (std::size_t i = 0; i < shielded.size(); ++i) {
    const Json& before = input->messages[i]["content"];
    const Json& after = shielded[i]["content"];
    if (!before.is_string()) continue;
    rendered += after.get<std::string>();
    plain += before.get<std::string>();
  }
  CHECK(shield.restored(rendered) == plain);
  std::string joined;
  for (const PromptPart& part : shield.prompt(rendered)) {
    joined += part.text;
    const auto match = kMarkers.find(part.text);
    CHECK(!match || (part.plain && !match->marker->always));
  }
  CHECK(joined == plain);
  return 0;
}
