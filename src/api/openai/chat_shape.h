#pragma once

// The one shape of messages and tools that all dialects are brought into, piece by piece (see
// ChatWish). Pure, any thread.

#include <string>
#include <string_view>

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

Json text_part(std::string_view text);

// What "content" holds for these parts: a text for none or one, else the list.
Json content_of(Json parts);

// One of an assistant's "tool_calls"; no arguments are those of {}.
Json call_json(std::string_view id, std::string_view name, std::string_view arguments);

// A tool; `parameters` that are no object stand for a function without any.
Json tool_json(std::string_view name, std::string_view description, const Json* parameters);

// Only the tool `name` may be called, and it must be; a complaint about `param` if there is none.
void require_tool(const std::string& name, const std::string& param, Complaint& complaint,
                  ChatWish& chat);

// The complaint about pictures, sounds and files.
ApiError text_only(std::string param, std::string_view type, std::string_view model);

}  // namespace salvage::api
