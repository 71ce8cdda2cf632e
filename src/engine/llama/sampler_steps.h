#pragma once

// The parts of a sampler: libllama's chain in the order that a request asks for, its grammar, and
// libllama-common's watch over a model's thoughts.

#include "base/result.h"
#include "engine/llama/handles.h"
#include "engine/llama/llama_vocabulary.h"
#include "engine/sampling.h"

namespace salvage::engine {

// Options that passed check_sampling(). The chain draws; its last step chooses.
SamplerHandle make_sampler_chain(const SamplingOptions& options, const LlamaVocabulary& vocabulary);

// Tokens that are never chosen, besides those of logit_bias.
std::vector<TokenId> banned_tokens(const SamplingOptions& options,
                                   const LlamaVocabulary& vocabulary);

// Null without a grammar. `invalid_argument` begins with "grammar: ".
Result<SamplerHandle> make_grammar_sampler(const AnswerGrammar& grammar,
                                           const LlamaVocabulary& vocabulary);

// Null where nothing has to be watched: no marks, or neither a budget nor a lazy grammar.
SamplerHandle make_thinking_sampler(const SamplingOptions& options,
                                    const LlamaVocabulary& vocabulary);

}  // namespace salvage::engine
