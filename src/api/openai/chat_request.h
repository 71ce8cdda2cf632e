#pragma once

// POST /v1/chat/completions. Complaints go to `fields`.

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

void read_chat_request(const Fields& fields, const ParseLimits& limits, GenerateRequest& request);

}  // namespace salvage::api
