#pragma once

// POST /v1/responses without stored state: what came before is all in "input". It becomes a chat.
// Complaints go to `fields`.

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

void read_responses_request(const Fields& fields, const ParseLimits& limits,
                            GenerateRequest& request);

}  // namespace salvage::api
