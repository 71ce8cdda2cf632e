#pragma once

// The tokenizer of a model, from libllama loaded without weights. engine/text.h is the contract.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/llama/handles.h"
#include "engine/markers.h"
#include "engine/shield.h"
#include "engine/text.h"

namespace salvage::engine {

class LlamaVocabulary final : public Vocabulary {
 public:
  static Result<std::shared_ptr<const LlamaVocabulary>> load(const std::filesystem::path& file);

  std::uint32_t size() const override;
  Result<std::vector<TokenId>> tokenize(std::string_view text,
                                        TokenizeOptions options) const override;
  std::string piece(TokenId token, bool special) const override;
  bool ends_generation(TokenId token) const override;
  std::optional<TokenId> begin_token() const override;
  std::optional<TokenId> end_token() const override;

  // A prompt in parts (shield.h): the same tokens as of the whole text wherever no part is plain.
  Result<std::vector<TokenId>> tokenize_prompt(std::span<const PromptPart> parts) const;
  // A text's tokens without begin and end, control tokens included.
  Result<std::vector<TokenId>> tokenize_control(std::string_view text) const {
    return tokenize(text, {.add_special = false, .parse_special = true});
  }

  const llama_model* model() const { return model_.get(); }
  const llama_vocab* handle() const { return vocabulary_; }
  // Control tokens. What models' makers declare to be ordinary added tokens ("<tool_call>") is left
  // to the text, but for those that look like the frame of a turn ("<|start|>").
  const Markers& markers() const { return markers_; }
  const std::vector<TokenId>& ending_tokens() const { return ending_tokens_; }
  // Never to be chosen, as the model's file says.
  std::span<const TokenId> suppressed_tokens() const;

 private:
  explicit LlamaVocabulary(ModelHandle model);
  bool has(TokenId token) const;

  ModelHandle model_;
  const llama_vocab* vocabulary_;  // in model_
  Markers markers_;
  std::vector<TokenId> ending_tokens_;
};

}  // namespace salvage::engine
