#pragma once

// "system" and "messages" of Anthropic as the messages of a chat. Pure, any thread.

#include <string>
#include <string_view>

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

// A message's blocks become messages in their order: results of tools each one of their own. Empty
// after a complaint.
Json read_anthropic_messages(const Fields& fields, std::string_view model);

// A system text without the line "x-anthropic-billing-header: ..." at its beginning. Claude Code
// puts it there and changes it with every request, so that no conversation's beginning would ever
// be found in the KV cache again: on old machines minutes a turn.
std::string_view without_billing_header(std::string_view text);

}  // namespace salvage::api
