#pragma once

// Chat templates: the model's own jinja template, run by libllama-common. engine/text.h is the
// contract.

#include <memory>

#include "base/result.h"
#include "engine/llama/llama_vocabulary.h"
#include "engine/text.h"

namespace salvage::engine {

// `not_found` if the model has no template; `unsupported` if its template can't be parsed.
Result<std::unique_ptr<ChatFormat>> make_llama_chat_format(
    std::shared_ptr<const LlamaVocabulary> vocabulary);

}  // namespace salvage::engine
