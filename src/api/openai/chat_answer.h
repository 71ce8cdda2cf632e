#pragma once

// The answer to POST /v1/chat/completions. Behind api/answer.h.

#include <memory>

#include "api/answer.h"

namespace salvage::api {

std::unique_ptr<AnswerStream> make_chat_stream(AnswerInfo info);
Json chat_whole(const AnswerInfo& info, const AnswerSoFar& so_far);

}  // namespace salvage::api
