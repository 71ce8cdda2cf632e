#pragma once

// The coordinator's side of a model: text to token ids and back, chat templates, sampling. None of
// these holds weights; they are made from a vocabulary file (a model's metadata without tensors).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace salvage::engine {

struct TokenizeOptions {
  bool add_special = true;     // Begin/end tokens as the model's file asks for; exactly one BOS.
  bool parse_special = false;  // Control tokens written in the text become control tokens.
};

// Thread rule: const calls from any thread at once. Outlives samplers and chat formats made from
// it.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual std::uint32_t size() const = 0;
  virtual Result<std::vector<TokenId>> tokenize(std::string_view text,
                                                TokenizeOptions options) const = 0;
  // The token's bytes; may be part of a UTF-8 character (base/utf8.h joins them). Control tokens
  // give nothing unless `special`. Ids out of range give nothing.
  virtual std::string piece(TokenId token, bool special) const = 0;
  virtual bool ends_generation(TokenId token) const = 0;
};

struct ChatMessage {
  std::string role;
  std::string content;
};

// The prompt made from messages by the model's own template, ready for tokenize({.add_special =
// ..., .parse_special = true}).
struct ChatPrompt {
  std::string text;
  bool add_special = false;
  std::vector<std::string> stop;
};

class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  virtual Result<ChatPrompt> apply(std::span<const ChatMessage> messages) const = 0;
};

struct SamplingOptions {
  std::uint64_t seed = 0;
  float temperature = 0.8F;  // 0 = greedy
  std::int32_t top_k = 40;   // 0 = all
  float top_p = 0.95F;
  float min_p = 0.05F;
  float repeat_penalty = 1.0F;
  std::int32_t repeat_last_n = 64;
};

// One a sequence. Not thread safe.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // How many of the highest logits choose() needs to choose exactly as from all of them; 0 = all.
  virtual std::uint32_t candidates_wanted() const = 0;
  // Chooses among all logits, index = token id, or among `ids[i]` with `logits[i]`.
  virtual TokenId choose(std::span<const float> logits) = 0;
  virtual TokenId choose(std::span<const TokenId> ids, std::span<const float> logits) = 0;
  // Tells the sampler what was accepted (prompt tokens count for penalties).
  virtual void accept(TokenId token) = 0;
};

// What the coordinator needs of one model, made by the concrete engine.
struct TextTools {
  std::shared_ptr<const Vocabulary>
      vocabulary;  // shared with the sampler and chat formats made below
  std::function<Result<std::unique_ptr<Sampler>>(const SamplingOptions&)> make_sampler;
  std::function<Result<std::unique_ptr<ChatFormat>>()> make_chat_format;  // not_found: no template
};

using TextToolsFactory =
    std::function<Result<TextTools>(const std::filesystem::path& vocabulary_file)>;

}  // namespace salvage::engine
