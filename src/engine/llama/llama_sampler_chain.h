#pragma once

// Samplers on libllama's chain over plain logits. engine/sampling.h is the contract.
//
// One rule makes a choice among all logits and among the best few the same: the chain always sees
// the same number of highest logits (of equal ones the lowest ids), in order of id. How many are
// enough: sampling_rules.h.
//
// A grammar is tried on the chosen token alone, as upstream does it; only if it fails are all
// candidates held against the grammar and another is chosen. That needs all logits, so a sampler
// whose grammar holds wants them; one that waits for a trigger does not.

#include <memory>

#include "base/result.h"
#include "engine/llama/llama_vocabulary.h"
#include "engine/sampling.h"

namespace salvage::engine {

// `invalid_argument` begins with the option's name and a colon.
Result<std::unique_ptr<Sampler>> make_llama_sampler(
    const SamplingOptions& options, std::shared_ptr<const LlamaVocabulary> vocabulary);

}  // namespace salvage::engine
