#pragma once

// "prompt" in all its forms: a text, a list of texts, token ids, lists of token ids, texts and ids
// mixed, {"prompt_string"}. Pure, any thread.

#include <vector>

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

// Any of the forms under `key`; a list of texts is several prompts, each answered by itself.
void read_prompts(const Fields& fields, const char* key, const ParseLimits& limits,
                  std::vector<Prompt>& prompts);

// One prompt: a text, or texts and ids mixed.
void read_prompt(const Fields& fields, const char* key, const ParseLimits& limits, Prompt& prompt);

// A list of token ids below the vocabulary's size.
void read_token_ids(const Fields& fields, const char* key, const ParseLimits& limits,
                    std::vector<TokenId>& ids);

}  // namespace salvage::api
