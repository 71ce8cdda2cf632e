#pragma once

// The answer to llama.cpp's own POST /completion. Behind api/answer.h.

#include <memory>

#include "api/answer.h"

namespace salvage::api {

std::unique_ptr<AnswerStream> make_llama_stream(AnswerInfo info);
// One object, or a list of them for several prompts or choices.
Json llama_whole(const AnswerInfo& info, const AnswerSoFar& so_far);

}  // namespace salvage::api
