#pragma once

// Anthropic's POST /v1/messages, and count_tokens, which takes the same. It becomes a chat.
// Complaints go to `fields`.

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

void read_messages_request(const Fields& fields, const ParseLimits& limits,
                           GenerateRequest& request);

}  // namespace salvage::api
