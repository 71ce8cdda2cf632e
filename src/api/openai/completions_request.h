#pragma once

// POST /v1/completions. Complaints go to `fields`.

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

void read_completions_request(const Fields& fields, const ParseLimits& limits,
                              GenerateRequest& request);

// Answers to all prompts of a request are streamed together, so there is one bound for all.
void check_choice_total(const Fields& fields, const GenerateRequest& request);

}  // namespace salvage::api
