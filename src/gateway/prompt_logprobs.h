#pragma once

// How likely a prompt's own tokens were, for clients that measure a text instead of having it
// continued: the logits of one position, and the token that really came next. Pure; any thread.

#include <cstddef>
#include <span>

#include "base/ids.h"
#include "engine/sampling.h"

namespace salvage::gateway {

// The logprob of `token`, minus infinity if it is none of the model's, and the `top_count`
// likeliest tokens: the likeliest first, of equal ones the lower id.
engine::Logprobs logprobs_in(std::span<const float> logits, TokenId token, std::size_t top_count);

}  // namespace salvage::gateway
