#pragma once

// Whether libllama can use a grammar, found out before it tries: its own check for left recursion
// follows every path through the rules, of which a short grammar can have more than anybody waits
// for.

#include <string>

#include <llama.h>

#include "base/result.h"

namespace salvage::engine {

// `invalid_argument` says why not, with no field's name before it.
Result<void> check_grammar(const llama_vocab* vocabulary, const std::string& grammar);

}  // namespace salvage::engine
