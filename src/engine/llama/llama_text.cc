#include "engine/llama/llama_text.h"

#include <exception>
#include <memory>

#include <fmt/format.h>

#include "engine/llama/llama_chat_format.h"
#include "engine/llama/llama_sampler_chain.h"
#include "engine/llama/llama_vocabulary.h"

namespace salvage::engine {

Result<TextTools> make_llama_text_tools(const std::filesystem::path& vocabulary_file) {
  try {
    ASSIGN_OR_RETURN(const std::shared_ptr<const LlamaVocabulary> vocabulary,
                     LlamaVocabulary::load(vocabulary_file));
    return TextTools{
        .vocabulary = vocabulary,
        .make_sampler =
            [size = vocabulary->size()](const SamplingOptions& options) {
              return make_llama_sampler(options, size);
            },
        .make_chat_format = [vocabulary] { return make_llama_chat_format(vocabulary); }};
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInternal,
                fmt::format("loading a vocabulary failed: {}", thrown.what()));
  }
}

}  // namespace salvage::engine
