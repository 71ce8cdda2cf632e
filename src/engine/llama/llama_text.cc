#include "engine/llama/llama_text.h"

#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "engine/llama/llama_chat_format.h"
#include "engine/llama/llama_sampler_chain.h"
#include "engine/llama/llama_vocabulary.h"

namespace salvage::engine {
namespace {

using SharedFormat = Result<std::shared_ptr<const ChatFormat>>;

// A template is analysed when its format is made, which takes a few requests' time.
struct OnceMade {
  std::once_flag once;
  SharedFormat format;
};

SharedFormat make_shared_format(const std::shared_ptr<const LlamaVocabulary>& vocabulary) {
  ASSIGN_OR_RETURN(auto format, make_llama_chat_format(vocabulary));
  return std::shared_ptr<const ChatFormat>(std::move(format));
}

}  // namespace

Result<TextTools> make_llama_text_tools(const std::filesystem::path& vocabulary_file) {
  try {
    ASSIGN_OR_RETURN(const std::shared_ptr<const LlamaVocabulary> vocabulary,
                     LlamaVocabulary::load(vocabulary_file));
    return TextTools{.vocabulary = vocabulary,
                     .make_sampler =
                         [vocabulary](const SamplingOptions& options) {
                           return make_llama_sampler(options, vocabulary);
                         },
                     .make_schema_grammar =
                         [vocabulary](const nlohmann::ordered_json& schema) {
                           return make_llama_schema_grammar(*vocabulary, schema);
                         },
                     .make_chat_format =
                         [vocabulary, made = std::make_shared<OnceMade>()] {
                           std::call_once(made->once,
                                          [&] { made->format = make_shared_format(vocabulary); });
                           return made->format;
                         }};
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInternal,
                fmt::format("loading a vocabulary failed: {}", thrown.what()));
  }
}

}  // namespace salvage::engine
