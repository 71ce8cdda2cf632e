#pragma once

// What both of OpenAI's older interfaces repeat in every JSON. Behind api/answer.h.

#include <span>
#include <string>
#include <string_view>

#include "api/answer_info.h"
#include "api/events.h"

namespace salvage::api {

struct ObjectNames {
  std::string_view id_prefix;
  std::string_view object;
};

// {"id", "object", "created", "model", "system_fingerprint"?}
Json openai_frame(const AnswerInfo& info, const ObjectNames& names);

// {"content": [...]}
Json logprobs_object(std::span<const TokenLogprob> tokens);

// A failure within a stream, and the stream's end: clients raise it, and wait for nothing more.
std::string openai_failure(const ApiError& error, const AnswerInfo& info);

}  // namespace salvage::api
