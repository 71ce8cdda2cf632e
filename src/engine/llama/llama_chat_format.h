#pragma once

// Chat templates: the model's own jinja template, run by libllama-common, which also makes the
// grammar and the parser of tool calls. engine/chat.h is the contract.

#include <memory>

#include "base/result.h"
#include "engine/chat.h"
#include "engine/llama/llama_vocabulary.h"

namespace salvage::engine {

// `not_found` if the model has no template; `unsupported` if its template can't be parsed.
Result<std::unique_ptr<ChatFormat>> make_llama_chat_format(
    std::shared_ptr<const LlamaVocabulary> vocabulary);

// A JSON schema as a grammar for answers outside a chat. `invalid_argument` begins with
// "json_schema: ".
Result<AnswerGrammar> make_llama_schema_grammar(const LlamaVocabulary& vocabulary,
                                                const nlohmann::ordered_json& schema);

}  // namespace salvage::engine
