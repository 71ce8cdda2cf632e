#pragma once

// The answer to Anthropic's POST /v1/messages. Behind api/answer.h.

#include <memory>
#include <string>

#include "api/answer.h"

namespace salvage::api {

std::unique_ptr<AnswerStream> make_messages_stream(AnswerInfo info);
Json messages_whole(const AnswerInfo& info, const AnswerSoFar& so_far);

std::string count_tokens_body(std::uint64_t tokens);  // POST /v1/messages/count_tokens

}  // namespace salvage::api
