#pragma once

// For tests: the vocabularies (no weights) and chat templates that the llama.cpp source tree brings
// along, alone and together.

#include <filesystem>
#include <memory>
#include <string>

#include "engine/chat.h"
#include "engine/llama/llama_vocabulary.h"
#include "engine/text.h"

namespace salvage::engine {

std::filesystem::path vocabulary_file(const std::string& name);
// Read once a process. Aborts the test if it can't be.
std::shared_ptr<const LlamaVocabulary> test_vocabulary(const std::string& name);

// The source of models/templates/NAME.jinja.
std::string upstream_template(const std::string& name);

// A vocabulary with another chat template, by way of a file of its own.
Result<TextTools> tools_with_template(const std::string& vocabulary, const std::string& source);
// The same, down to the format; aborts the test if there is none.
std::shared_ptr<const ChatFormat> test_format(const std::string& vocabulary,
                                              const std::string& source);

ChatRequest chat_of(const std::string& messages);

}  // namespace salvage::engine
