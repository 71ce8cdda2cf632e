#pragma once

// llama.cpp's own POST /completion. Complaints go to `fields`.

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

void read_llama_completion(const Fields& fields, const ParseLimits& limits,
                           GenerateRequest& request);

}  // namespace salvage::api
