#include "sim/fake_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/result.h"
#include "engine/chat.h"
#include "sim/fake_engine.h"

namespace salvage::sim {
namespace {

constexpr std::string_view kPieces =
    "abcdefghijklmnopqrstuvwxyz"
    " \n\"\\<>{}"
    "\xF0\x9F\x98\x80"  // an emoji
    "\xC3\xA9"          // e with an accent
    "\xE4\xBD\xA0"      // a Chinese character
    "\xFF\x80\xC0"      // never right
    "/*";
static_assert(kPieces.size() == 48);

class FakeVocabulary final : public engine::Vocabulary {
 public:
  std::uint32_t size() const override { return kFakeVocabulary; }
  Result<std::vector<TokenId>> tokenize(std::string_view text,
                                        engine::TokenizeOptions /*options*/) const override {
    std::vector<TokenId> tokens;
    tokens.reserve(text.size());
    for (const char c : text) {
      tokens.push_back(static_cast<TokenId>(static_cast<unsigned char>(c) % kFakeEndToken));
    }
    return tokens;
  }
  std::string piece(TokenId token, bool /*special*/) const override { return fake_piece(token); }
  bool ends_generation(TokenId token) const override { return token == kFakeEndToken; }
  std::optional<TokenId> begin_token() const override { return std::nullopt; }
  std::optional<TokenId> end_token() const override { return kFakeEndToken; }
};

class FakeSampler final : public engine::Sampler {
 public:
  explicit FakeSampler(bool reports) : reports_(reports) {}
  std::uint32_t candidates_wanted() const override { return 1; }
  TokenId choose(std::span<const float> logits) override {
    return chosen(
        static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  TokenId choose(const engine::TopLogits& top) override {
    const auto best = std::max_element(top.logits.begin(), top.logits.end());
    return chosen(top.ids[static_cast<std::size_t>(best - top.logits.begin())]);
  }
  const std::optional<engine::Logprobs>& logprobs() const override { return logprobs_; }
  void accept(TokenId /*token*/) override {}
  void accept_prompt(TokenId /*token*/) override {}

 private:
  TokenId chosen(TokenId token) {
    if (reports_) logprobs_ = engine::Logprobs{.chosen = {token, -1}, .top = {{token, -1}}};
    return token;
  }

  const bool reports_;
  std::optional<engine::Logprobs> logprobs_;
};

// Writes its text, whatever the logits say.
class ScriptSampler final : public engine::Sampler {
 public:
  explicit ScriptSampler(std::string text) : text_(std::move(text)) {}
  std::uint32_t candidates_wanted() const override { return 1; }
  TokenId choose(std::span<const float> /*logits*/) override { return next(); }
  TokenId choose(const engine::TopLogits& /*top*/) override { return next(); }
  const std::optional<engine::Logprobs>& logprobs() const override { return none_; }
  void accept(TokenId /*token*/) override { ++written_; }
  void accept_prompt(TokenId /*token*/) override {}

 private:
  TokenId next() const {
    if (written_ >= text_.size()) return kFakeEndToken;
    const std::size_t piece = kPieces.find(text_[written_]);
    return piece == std::string_view::npos ? kFakeEndToken : static_cast<TokenId>(piece);
  }
  const std::string text_;
  std::size_t written_ = 0;
  const std::optional<engine::Logprobs> none_;
};

class FakeParser final : public engine::ChatParser {
 public:
  std::vector<engine::ChatDelta> push(std::string_view text) override {
    answer_.content += text;
    return {{.content = std::string(text)}};
  }
  std::vector<engine::ChatDelta> finish() override { return {}; }
  const engine::ChatAnswer& answer() const override { return answer_; }

 private:
  engine::ChatAnswer answer_;
};

class FakeFormat final : public engine::ChatFormat {
 public:
  explicit FakeFormat(std::shared_ptr<const engine::Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)) {}
  const engine::ChatFormatFacts& facts() const override { return facts_; }
  Result<engine::ChatPrompt> apply(const engine::ChatRequest& request) const override {
    engine::ChatPrompt prompt;
    for (const auto& message : request.messages) {
      prompt.text += message.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
      prompt.text += '\n';
    }
    ASSIGN_OR_RETURN(prompt.tokens, vocabulary_->tokenize(prompt.text, {}));
    prompt.make_parser = [] { return std::make_unique<FakeParser>(); };
    return prompt;
  }

 private:
  const std::shared_ptr<const engine::Vocabulary> vocabulary_;
  const engine::ChatFormatFacts facts_{
      .template_source = "{{ messages }}", .tools = true, .system_role = true};
};

}  // namespace

std::string fake_piece(TokenId token) {
  if (token < 0 || token >= static_cast<TokenId>(kPieces.size())) return {};
  return std::string(1, kPieces[static_cast<std::size_t>(token)]);
}

engine::TextTools make_fake_text(const std::optional<std::string>& script) {
  engine::TextTools tools;
  const auto vocabulary = std::make_shared<FakeVocabulary>();
  tools.vocabulary = vocabulary;
  tools.make_sampler =
      [script](const engine::SamplingOptions& options) -> Result<std::unique_ptr<engine::Sampler>> {
    if (script) return std::make_unique<ScriptSampler>(*script);
    return std::make_unique<FakeSampler>(options.logprobs);
  };
  tools.make_schema_grammar = [](const nlohmann::ordered_json&) -> Result<engine::AnswerGrammar> {
    return engine::AnswerGrammar{};
  };
  const auto format = std::make_shared<FakeFormat>(vocabulary);
  tools.make_chat_format = [format]() -> Result<std::shared_ptr<const engine::ChatFormat>> {
    return format;
  };
  return tools;
}

}  // namespace salvage::sim
