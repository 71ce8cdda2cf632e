#pragma once

// The answer to POST /v1/responses. Behind api/answer.h.

#include <memory>
#include <string>

#include "api/answer.h"

namespace salvage::api {

std::unique_ptr<AnswerStream> make_responses_stream(AnswerInfo info);
Json responses_whole(const AnswerInfo& info, const AnswerSoFar& so_far);

// POST /v1/chat/completions/input_tokens and /v1/responses/input_tokens
std::string input_tokens_body(std::uint64_t tokens);

}  // namespace salvage::api
