#pragma once

// Vocabulary, chat format and samplers on libllama, from a vocabulary file: a model's metadata
// without tensors (a whole model works too, its weights are not read). engine/text.h is the
// contract.

#include <filesystem>

#include "base/result.h"
#include "engine/text.h"

namespace salvage::engine {

// A TextToolsFactory. The parts share the vocabulary's ownership, so they may outlive the
// TextTools.
Result<TextTools> make_llama_text_tools(const std::filesystem::path& vocabulary_file);

}  // namespace salvage::engine
