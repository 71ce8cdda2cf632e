#pragma once

// The answer to POST /v1/completions: text only, whatever the model means by it. Behind
// api/answer.h.

#include <memory>

#include "api/answer.h"

namespace salvage::api {

std::unique_ptr<AnswerStream> make_completions_stream(AnswerInfo info);
Json completions_whole(const AnswerInfo& info, const AnswerSoFar& so_far);

}  // namespace salvage::api
