#include "engine/llama/llama_vocabulary.h"

#include <array>
#include <cstdint>
#include <exception>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"
#include "engine/llama/backend.h"
#include "model/gguf.h"

namespace salvage::engine {
namespace {

// A context of 16 million tokens of four characters; libllama counts in int32.
constexpr std::size_t kTextBytesMax = std::size_t{64} << 20;
// The longest tokens of known vocabularies are runs of some 200 spaces.
constexpr std::size_t kPieceBytes = 256;

// "<|start|>", "<\xEF\xBD\x9CUser\xEF\xBD\x9C>": how the frames of turns are written. libllama
// declares those of gpt-oss to be ordinary, DeepSeek's maker did so with its own.
bool looks_like_frame(std::string_view text) {
  return text.starts_with("<|") || text.ends_with("|>") || text.starts_with("<\xEF\xBD\x9C") ||
         text.ends_with("\xEF\xBD\x9C>");
}

std::vector<Marker> markers_of(const llama_vocab* vocabulary) {
  std::vector<Marker> markers;
  if (llama_vocab_type(vocabulary) == LLAMA_VOCAB_TYPE_NONE) return markers;
  for (TokenId token = 0; token < llama_vocab_n_tokens(vocabulary); ++token) {
    const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(vocabulary, token));
    const bool control = (attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
    const bool added = (attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0;
    if (!control && !added) continue;
    const std::string_view text = llama_vocab_get_text(vocabulary, token);
    if (!control && !looks_like_frame(text)) continue;
    markers.push_back({.text = std::string(text),
                       .strips_left = (attributes & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
                       .strips_right = (attributes & LLAMA_TOKEN_ATTR_RSTRIP) != 0,
                       .always = !control});
  }
  return markers;
}

std::vector<TokenId> ending_tokens_of(const llama_vocab* vocabulary) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < llama_vocab_n_tokens(vocabulary); ++token) {
    if (llama_vocab_is_eog(vocabulary, token)) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

LlamaVocabulary::LlamaVocabulary(ModelHandle model)
    : model_(std::move(model)),
      vocabulary_(llama_model_get_vocab(model_.get())),
      markers_(markers_of(vocabulary_)),
      ending_tokens_(ending_tokens_of(vocabulary_)) {}

Result<std::shared_ptr<const LlamaVocabulary>> LlamaVocabulary::load(
    const std::filesystem::path& file) {
  RETURN_IF_ERROR(start_backend());
  // Our own reader goes first: what it refuses never reaches libllama's, which trusts more.
  ASSIGN_OR_RETURN(const model::Gguf gguf, model::Gguf::open(file));
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  params.n_gpu_layers = 0;
  params.progress_callback = [](float, void*) { return true; };
  clear_backend_log();
  ModelHandle model(llama_model_load_from_file(gguf.part_name(0).c_str(), params));
  if (!model) {
    return fail(
        backend_error(ErrorCode::kCorrupt, "can't read a vocabulary from " + file.string()));
  }
  std::shared_ptr<const LlamaVocabulary> vocabulary(new LlamaVocabulary(std::move(model)));
  if (llama_vocab_type(vocabulary->vocabulary_) == LLAMA_VOCAB_TYPE_NONE) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{} has no tokenizer; only a model's vocabulary file or the whole model "
                    "has",
                    file.string()));
  }
  return vocabulary;
}

bool LlamaVocabulary::has(TokenId token) const {
  return token >= 0 && token < llama_vocab_n_tokens(vocabulary_);
}

std::uint32_t LlamaVocabulary::size() const {
  return static_cast<std::uint32_t>(llama_vocab_n_tokens(vocabulary_));
}

Result<std::vector<TokenId>> LlamaVocabulary::tokenize(std::string_view text,
                                                       TokenizeOptions options) const {
  if (text.size() > kTextBytesMax) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a text of {} bytes; at most {} can be tokenized", text.size(), kTextBytesMax));
  }
  try {
    const std::string valid = well_formed_utf8(text);
    const auto bytes = static_cast<std::int32_t>(valid.size());
    std::vector<TokenId> tokens(valid.size() + 8);  // rarely more tokens than bytes
    const auto tokenize_into = [&] {
      return llama_tokenize(vocabulary_, valid.data(), bytes, tokens.data(),
                            static_cast<std::int32_t>(tokens.size()), options.add_special,
                            options.parse_special);
    };
    std::int32_t count = tokenize_into();
    if (count < 0 && count != std::numeric_limits<std::int32_t>::min()) {
      tokens.resize(static_cast<std::size_t>(-count));
      count = tokenize_into();
    }
    if (count < 0) return fail(ErrorCode::kInvalidArgument, "the text has too many tokens");
    tokens.resize(static_cast<std::size_t>(count));
    // A template that writes the begin token itself must not make two of it.
    const TokenId begin = llama_vocab_bos(vocabulary_);
    while (options.add_special && llama_vocab_get_add_bos(vocabulary_) && tokens.size() > 1 &&
           tokens[0] == begin && tokens[1] == begin) {
      tokens.erase(tokens.begin());
    }
    return tokens;
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the tokenizer can't read this text: {}", thrown.what()));
  }
}

Result<std::vector<TokenId>> LlamaVocabulary::tokenize_prompt(
    std::span<const PromptPart> parts) const {
  if (parts.size() == 1 && !parts.front().plain) {
    return tokenize(parts.front().text, {.add_special = true, .parse_special = true});
  }
  // What begin and end consist of, of which only a begin token stands in front.
  ASSIGN_OR_RETURN(const auto frame, tokenize("", {.add_special = true}));
  const TokenId begin = llama_vocab_bos(vocabulary_);
  const bool begins = !frame.empty() && frame.front() == begin;
  std::vector<TokenId> tokens;
  for (const PromptPart& part : parts) {
    ASSIGN_OR_RETURN(const auto more,
                     tokenize(part.text, {.add_special = false, .parse_special = !part.plain}));
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  if (begins && (tokens.empty() || tokens.front() != begin)) tokens.insert(tokens.begin(), begin);
  tokens.insert(tokens.end(), frame.begin() + (begins ? 1 : 0), frame.end());
  return tokens;
}

std::span<const TokenId> LlamaVocabulary::suppressed_tokens() const {
  std::int32_t count = 0;
  const llama_token* tokens = llama_vocab_get_suppress_tokens(vocabulary_, &count);
  if (tokens == nullptr || count <= 0) return {};
  return {tokens, static_cast<std::size_t>(count)};
}

std::string LlamaVocabulary::piece(TokenId token, bool special) const {
  if (!has(token)) return {};
  std::array<char, kPieceBytes> buffer{};
  const std::int32_t count = llama_token_to_piece(
      vocabulary_, token, buffer.data(), static_cast<std::int32_t>(buffer.size()), 0, special);
  if (count >= 0) return std::string(buffer.data(), static_cast<std::size_t>(count));
  std::string text(static_cast<std::size_t>(-count), '\0');
  llama_token_to_piece(vocabulary_, token, text.data(), -count, 0, special);
  return text;
}

std::optional<TokenId> LlamaVocabulary::begin_token() const {
  const TokenId token = llama_vocab_bos(vocabulary_);
  return has(token) ? std::optional(token) : std::nullopt;
}

std::optional<TokenId> LlamaVocabulary::end_token() const {
  const TokenId token = llama_vocab_eos(vocabulary_);
  return has(token) ? std::optional(token) : std::nullopt;
}

bool LlamaVocabulary::ends_generation(TokenId token) const {
  return has(token) && llama_vocab_is_eog(vocabulary_, token);
}

}  // namespace salvage::engine
