#pragma once

// What follows from sampling options alone: which values are possible, and how many of the highest
// logits are enough to choose as from all of them. Pure; any thread.

#include <cstdint>

#include "base/result.h"
#include "engine/sampling.h"

namespace salvage::engine {

// `invalid_argument` begins with the option's name and a colon. The grammar is not looked at.
Result<void> check_sampling(const SamplingOptions& options, std::uint32_t vocabulary_size);

// Temperatures below 0.001 leave nothing to chance, unless a step may remove the likeliest token.
bool greedy(const SamplingOptions& options);

// A step that does something.
bool active(const SamplingOptions& options, SamplerKind kind);

// Enough is what the first step that bounds the candidates keeps, plus one for each token that an
// earlier step may push down. `banned_count` tokens are never chosen (see LogitBias). 0 = all of
// them: where a step before that bound needs the whole distribution, where a token may rise from
// anywhere, and where a list would weigh more than the row.
std::uint32_t candidates_enough(const SamplingOptions& options, std::uint32_t vocabulary_size,
                                std::size_t banned_count);

// The longest list of logits worth asking for.
std::uint32_t list_max(std::uint32_t vocabulary_size);

}  // namespace salvage::engine
