#pragma once

// "tools", "tool_choice" and "parallel_tool_calls" of a chat completion. Pure, any thread.

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

void read_chat_tools(const Fields& fields, ChatWish& chat);

// One function as OpenAI describes it: {"name", "description"?, "parameters"?}. Adds it to `tools`.
void add_function(const Fields& function, Json& tools);

// "auto", "none" or "required"; true if the text is one of them.
bool take_choice_word(const std::string& word, ChatWish& chat);

// {"mode", "tools": [{"name"}]}: only these may be called. `named` finds the name within an item.
void allow_tools(const Fields& allowed, const char* nested, ChatWish& chat);

}  // namespace salvage::api
