#pragma once

// The coordinator's side of a model: text to token ids and back, chat templates, sampling. None of
// these holds weights; they are made from a vocabulary file (a model's metadata without tensors).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/ids.h"
#include "base/result.h"
#include "engine/sampling.h"

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
  // What stands before a text and behind an answer by itself; unset: this model has none.
  virtual std::optional<TokenId> begin_token() const = 0;
  virtual std::optional<TokenId> end_token() const = 0;
};

class ChatFormat;  // engine/chat.h

// What the coordinator needs of one model, made by the concrete engine.
struct TextTools {
  std::shared_ptr<const Vocabulary>
      vocabulary;  // shared with the sampler and chat formats made below
  // `invalid_argument` begins with the option's name: "top_p: ...", "grammar: ...".
  std::function<Result<std::unique_ptr<Sampler>>(const SamplingOptions&)> make_sampler;
  // Any answer that fits a JSON schema, for prompts outside a chat; `invalid_argument` begins with
  // "json_schema: ".
  std::function<Result<AnswerGrammar>(const nlohmann::ordered_json&)> make_schema_grammar;
  // The same one each time, made with the first. `not_found`: the model has no template.
  std::function<Result<std::shared_ptr<const ChatFormat>>()> make_chat_format;
};

using TextToolsFactory =
    std::function<Result<TextTools>(const std::filesystem::path& vocabulary_file)>;

}  // namespace salvage::engine
