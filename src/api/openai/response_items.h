#pragma once

// The items of a response: what was thought, said and called, each with an id of its own. Behind
// api/answer.h.

#include <string>
#include <string_view>

#include "api/answer.h"

namespace salvage::api {

enum class ItemStatus { kInProgress, kCompleted, kIncomplete };

// Free text for a custom tool, made a function here: what its one argument holds.
bool is_custom_call(const AnswerInfo& info, const Segment& segment);
std::string custom_input(const Segment& segment);

std::string item_id(const AnswerInfo& info, std::size_t index, const Segment& segment);
// The segment as it is now; in progress it is still empty.
Json item_json(const AnswerInfo& info, std::size_t index, const Segment& segment,
               ItemStatus status);
// The one part of what is thought or said.
Json part_json(const Segment& segment, ItemStatus status);

// {"id", "object": "response", "status", ...}; "output" and "usage" once there is an answer.
Json response_json(const AnswerInfo& info, const AnswerSoFar* so_far);
// Why a response that ended isn't completed; null if it is.
Json incomplete_reason(StopReason reason);
// The code of a failed response: clients with strict types know only OpenAI's own few.
std::string_view response_error_code(ErrorKind kind);

}  // namespace salvage::api
