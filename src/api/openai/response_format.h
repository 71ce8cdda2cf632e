#pragma once

// The form that an answer must have: "response_format" of a chat completion, "text.format" of a
// response, "output_format" of a message. Pure, any thread.

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

// {"type": "text" | "json_object" | "json_schema", "json_schema"?: {"schema"}, "schema"?}: the
// schema nested as OpenAI has it, or flat as llama.cpp's pages and newer interfaces do.
void read_format(const Fields& format, GenerateRequest& request);

}  // namespace salvage::api
