#pragma once

// Samplers on libllama's chain (penalties, top-k, top-p, min-p, temperature, draw), over plain
// logits. engine/text.h is the contract.
//
// One rule makes a choice among all logits and among the best few the same: the chain always sees
// the candidates_wanted() highest logits (of equal ones the lowest ids), in order of id. Enough is
// top_k, plus, as a penalty can push a token out of the best, one for each penalised token.

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "engine/text.h"

namespace salvage::engine {

// `invalid_argument` names the option out of range. Temperatures below 0.001 are greedy.
Result<std::unique_ptr<Sampler>> make_llama_sampler(const SamplingOptions& options,
                                                    std::uint32_t vocabulary_size);

}  // namespace salvage::engine
