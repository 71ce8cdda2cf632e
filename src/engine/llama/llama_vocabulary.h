#pragma once

// The tokenizer of a model, from libllama loaded without weights. engine/text.h is the contract.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/llama/handles.h"
#include "engine/text.h"

namespace salvage::engine {

// Text as libllama takes it: what is not UTF-8 becomes U+FFFD.
std::string well_formed(std::string_view text);

class LlamaVocabulary final : public Vocabulary {
 public:
  static Result<std::shared_ptr<const LlamaVocabulary>> load(const std::filesystem::path& file);

  std::uint32_t size() const override;
  Result<std::vector<TokenId>> tokenize(std::string_view text,
                                        TokenizeOptions options) const override;
  std::string piece(TokenId token, bool special) const override;
  bool ends_generation(TokenId token) const override;

  const llama_model* model() const { return model_.get(); }

 private:
  explicit LlamaVocabulary(ModelHandle model);
  bool has(TokenId token) const;

  ModelHandle model_;
  const llama_vocab* vocabulary_;  // in model_
};

}  // namespace salvage::engine
