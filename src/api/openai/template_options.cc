#include "api/openai/template_options.h"

#include <algorithm>
#include <array>
#include <limits>

#include "api/limits.h"

namespace salvage::api {
namespace {

constexpr std::size_t kWordBytesMax = 64;
constexpr std::array<std::string_view, 5> kReasoningFormats = {"", "none", "auto", "deepseek",
                                                               "deepseek-legacy"};

void read_kwargs(const Fields& fields, ChatWish& chat) {
  const Json* kwargs = fields.object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  chat.template_kwargs = *kwargs;
  const Fields nested(*kwargs, fields.path("chat_template_kwargs."), fields.complaint());
  nested.flag("enable_thinking", chat.enable_thinking);
}

// true, false, or a word as for reasoning_effort.
void read_think(const Fields& fields, ChatWish& chat) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  if (think->is_boolean()) {
    chat.enable_thinking = think->get<bool>();
    return;
  }
  std::string effort;
  if (fields.text("think", effort, kWordBytesMax)) take_effort(effort, chat);
}

void read_reasoning_budget(const Fields& fields, ChatWish& chat) {
  const char* key = fields.find("reasoning_budget_tokens") != nullptr ? "reasoning_budget_tokens"
                                                                      : "thinking_budget_tokens";
  std::int32_t budget = -1;
  fields.whole(key, budget, {-1, std::numeric_limits<std::int32_t>::max()});
  if (budget >= 0) chat.reasoning_tokens_max = budget;
  fields.text("reasoning_budget_message", chat.reasoning_budget_message, kStopBytesMax);
}

}  // namespace

void take_effort(const std::string& effort, ChatWish& chat) {
  if (effort == "none") {
    chat.enable_thinking = false;
    chat.template_kwargs.erase("reasoning_effort");
  } else if (!effort.empty()) {
    chat.template_kwargs["reasoning_effort"] = effort;
  }
}

void read_template_options(const Fields& fields, ChatWish& chat) {
  read_kwargs(fields, chat);
  read_think(fields, chat);
  std::string effort;
  if (fields.text("reasoning_effort", effort, kWordBytesMax)) take_effort(effort, chat);
  fields.text("reasoning_format", chat.reasoning_format, kWordBytesMax);
  if (std::find(kReasoningFormats.begin(), kReasoningFormats.end(), chat.reasoning_format) ==
      kReasoningFormats.end()) {
    fields.refuse("reasoning_format", "must be none, auto, deepseek or deepseek-legacy");
  }
  read_reasoning_budget(fields, chat);
}

void read_continuation(const Fields& fields, ChatWish& chat) {
  if (chat.messages.empty()) return;
  const Json& last = chat.messages.back();
  const Json* wish = fields.find("continue_final_message");
  const bool is_prefill = last["role"] == "assistant" && !last.contains("tool_calls");
  if (wish == nullptr) {
    chat.continuation = is_prefill ? Continuation::kAuto : Continuation::kNone;
  } else if (wish->is_boolean()) {
    chat.continuation = wish->get<bool>() ? Continuation::kAuto : Continuation::kNone;
  } else if (*wish == "content") {
    chat.continuation = Continuation::kContent;
  } else if (*wish == "reasoning_content") {
    chat.continuation = Continuation::kReasoning;
  } else {
    fields.refuse("continue_final_message", "must be true, false, content or reasoning_content");
  }
  const bool goes_on = chat.continuation != Continuation::kNone;
  if (goes_on && !is_prefill) {
    fields.refuse("continue_final_message", "needs a last message that is an assistant's text");
  }
  bool add_prompt = !goes_on;
  fields.flag("add_generation_prompt", add_prompt);
  if (goes_on && add_prompt) {
    fields.refuse("add_generation_prompt", "must be false where the last message is continued");
  }
  chat.add_generation_prompt = add_prompt;
}

}  // namespace salvage::api
