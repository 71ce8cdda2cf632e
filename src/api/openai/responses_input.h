#pragma once

// "instructions" and "input" of a response as the messages of a chat. Pure, any thread.

#include <string_view>

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

// Items of one turn of the assistant (what it thought, said and called) become one message; all
// that the system says before the first turn becomes one, since templates take no two. Empty after
// a complaint.
Json read_responses_input(const Fields& fields, std::string_view model);

}  // namespace salvage::api
