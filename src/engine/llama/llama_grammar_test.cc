// Goal: a grammar holds whatever the logits say, a lazy one from its trigger on, and what libllama
// could not bear is refused. Method: whole answers drawn from random logits, with seeds.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/llama/grammar_check.h"
#include "engine/llama/llama_chat_format.h"
#include "engine/llama/llama_sampler_chain.h"
#include "engine/llama/test_vocabulary.h"

namespace salvage::engine {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::StartsWith;

std::shared_ptr<const LlamaVocabulary> words() {
  return test_vocabulary("llama-spm");
}

std::vector<TokenId> tokens_of(const std::string& text) {
  const auto tokens = words()->tokenize_control(text);
  EXPECT_TRUE(tokens) << text;
  return *tokens;
}

std::unique_ptr<Sampler> bound_sampler(const SamplingOptions& options) {
  auto made = make_llama_sampler(options, words());
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

// Logits that know nothing, but that a long answer gets an end: what closes JSON grows likelier.
class RandomLogits {
 public:
  explicit RandomLogits(std::uint64_t seed) : random_(seed), logits_(words()->size()) {
    for (std::size_t token = 0; token < logits_.size(); ++token) {
      const std::string piece = words()->piece(static_cast<TokenId>(token), false);
      if (piece == "\"" || piece == "}" || piece == "]") {
        closing_.push_back(static_cast<TokenId>(token));
      }
    }
  }

  std::span<const float> next(int position) {
    for (float& logit : logits_) {
      logit = static_cast<float>(random_() % 1000) / 100;
    }
    for (const TokenId token : closing_) {
      logits_[static_cast<std::size_t>(token)] += static_cast<float>(position);
    }
    for (const TokenId token : words()->ending_tokens()) {
      logits_[static_cast<std::size_t>(token)] += static_cast<float>(position);
    }
    return logits_;
  }

 private:
  std::mt19937_64 random_;
  std::vector<float> logits_;
  std::vector<TokenId> closing_;
};

constexpr int kTokensMax = 400;

// The text drawn until its end; everything is checked to be accepted.
std::string draw(Sampler& sampler, std::uint64_t seed) {
  RandomLogits logits(seed);
  std::string text;
  for (int i = 0; i < kTokensMax; ++i) {
    const TokenId token = sampler.choose(logits.next(i));
    if (token == kNoToken) return text + "<nothing>";
    if (words()->ends_generation(token)) return text;
    sampler.accept(token);
    text += words()->piece(token, false);
  }
  return text + "<no end>";
}

AnswerGrammar grammar_of(const char* schema) {
  auto grammar = make_llama_schema_grammar(*words(), Json::parse(schema));
  EXPECT_TRUE(grammar) << grammar.error().message();
  return std::move(*grammar);
}

TEST(GrammarTest, a_schema_forces_valid_json_out_of_random_logits) {
  const AnswerGrammar grammar = grammar_of(R"({"type":"object","properties":{
      "name":{"type":"string"},"age":{"type":"integer"},
      "tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":3}},
      "required":["name","age"],"additionalProperties":false})");
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    for (const float temperature : {0.0F, 0.8F, 5.0F}) {
      const auto made =
          bound_sampler({.seed = seed, .temperature = temperature, .grammar = grammar});
      const std::string text = draw(*made, seed);
      ASSERT_TRUE(Json::accept(text)) << text;
      const Json json = Json::parse(text);
      EXPECT_TRUE(json["name"].is_string() && json["age"].is_number_integer()) << text;
      EXPECT_LE(json.value("tags", Json::array()).size(), 3U);
    }
  }
}

TEST(GrammarTest, every_way_of_drawing_keeps_to_it) {
  const AnswerGrammar grammar{.text = "root ::= [a-c]{3,8}"};
  const std::vector<SamplingOptions> ways = {
      {.top_k = 0, .top_p = 1, .min_p = 0},
      {.top_k = 1},
      {.mirostat = 1},
      {.mirostat = 2},
      {.xtc_probability = 1, .xtc_threshold = 0},
      {.typical_p = 0.1F},
      {.top_n_sigma = 0.5F},
      {.dynatemp_range = 2},
      {.adaptive_target = 0.5F, .order = {SamplerKind::kAdaptiveP}},
      {.repeat_penalty = 2, .dry_multiplier = 5},
      {.logit_bias = {{5, 100}}, .ignore_eos = false}};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    SamplingOptions options = ways[i];
    options.grammar = grammar;
    const auto made = bound_sampler(options);
    EXPECT_THAT(draw(*made, i), testing::MatchesRegex("[abc]{3,8}")) << i;
  }
}

TEST(GrammarTest, a_grammar_that_holds_wants_all_logits) {
  EXPECT_EQ(bound_sampler({.grammar = {.text = "root ::= \"a\""}})->candidates_wanted(), 0U);
  EXPECT_EQ(bound_sampler({})->candidates_wanted(), 40U);
}

TEST(GrammarTest, a_lazy_one_holds_from_its_trigger_on) {
  const AnswerGrammar lazy{
      .text = "root ::= \"call \" [0-9]+ \";\"", .lazy = true, .trigger_patterns = {"call "}};
  const auto made = bound_sampler({.temperature = 0, .top_k = 40, .grammar = lazy});
  EXPECT_EQ(made->candidates_wanted(), 1U);
  const auto say = [&](const std::string& text) {
    for (const TokenId token : tokens_of(text)) {
      std::vector<float> logits(words()->size(), 0);
      logits[static_cast<std::size_t>(token)] = 10;
      if (made->choose(logits) != token) return false;
      made->accept(token);
    }
    return true;
  };
  EXPECT_TRUE(say("anything goes"));
  EXPECT_EQ(made->candidates_wanted(), 1U);
  EXPECT_TRUE(say("call "));
  EXPECT_EQ(made->candidates_wanted(), 0U);
  EXPECT_FALSE(say("x"));
}

TEST(GrammarTest, thoughts_are_free_even_behind_a_trigger) {
  SamplingOptions options{
      .temperature = 0,
      .grammar = {
          .text = "root ::= \"call \" [0-9]+", .lazy = true, .trigger_patterns = {"call "}}};
  options.thinking.start = tokens_of("<think>");
  options.thinking.ends = {tokens_of("</think>")};
  options.thinking.begun = options.thinking.start;
  const auto made = bound_sampler(options);
  for (const TokenId token : tokens_of("I may call nobody")) made->accept(token);
  EXPECT_EQ(made->candidates_wanted(), 1U);
}

TEST(GrammarTest, a_budget_ends_the_thoughts) {
  SamplingOptions options{.temperature = 0};
  options.thinking.start = tokens_of("<think>");
  options.thinking.ends = {tokens_of("</think>")};
  options.thinking.forced = options.thinking.ends.front();
  options.thinking.begun = options.thinking.start;
  options.thinking.budget = 3;
  const auto made = bound_sampler(options);
  const TokenId filler = tokens_of("x").back();
  std::vector<float> logits(words()->size(), 0);
  logits[static_cast<std::size_t>(filler)] = 10;
  std::vector<TokenId> written;
  for (std::size_t i = 0; i < 3 + options.thinking.forced.size() + 1; ++i) {
    const bool forced = i >= 3 && i < 3 + options.thinking.forced.size();
    EXPECT_EQ(made->candidates_wanted(), forced ? 0U : 1U) << i;
    written.push_back(made->choose(logits));
    made->accept(written.back());
  }
  std::vector<TokenId> expected(3, filler);
  expected.insert(expected.end(), options.thinking.forced.begin(), options.thinking.forced.end());
  expected.push_back(filler);
  EXPECT_EQ(written, expected);
}

TEST(GrammarTest, nothing_to_choose_is_said_and_asked_no_more) {
  // No piece of this vocabulary has this character and the byte tokens that make it up together
  // with what comes next.
  const auto made = bound_sampler({.grammar = {.text = "root ::= \"a\""}});
  std::vector<float> logits(words()->size(), 0);
  made->accept(tokens_of("zzz").back());  // not what the grammar allows
  EXPECT_EQ(made->choose(logits), kNoToken);
  EXPECT_EQ(made->choose(logits), kNoToken);
}

TEST(GrammarTest, an_end_that_the_grammar_does_not_allow_is_passed_over) {
  const auto made = bound_sampler({.temperature = 0, .grammar = {.text = "root ::= \"a\""}});
  made->accept(words()->ending_tokens().front());
  std::vector<float> logits(words()->size(), 0);
  EXPECT_EQ(words()->piece(made->choose(logits), false), "a");
}

TEST(GrammarTest, grammars_that_are_none_are_refused_by_name) {
  const std::string half(60, ' ');
  for (const std::string& text :
       {std::string("root = \"a\""), std::string("root ::= \"a"), std::string("other ::= \"a\""),
        std::string("root ::= missing"), std::string("root ::= root \"a\" | \"a\""),
        std::string("root ::= \"a\"{3,1}"), std::string("%llguidance {}")}) {
    const auto made = make_llama_sampler({.grammar = {.text = text}}, words());
    ASSERT_FALSE(made) << text;
    EXPECT_THAT(made.error().message(), StartsWith("grammar: ")) << text;
    EXPECT_EQ(made.error().code(), ErrorCode::kInvalidArgument);
  }
  const auto made = make_llama_sampler(
      {.grammar = {.text = "root ::= \"a\"", .lazy = true, .trigger_patterns = {"("}}}, words());
  ASSERT_FALSE(made);
}

TEST(GrammarTest, rules_with_more_paths_than_time_are_refused_at_once) {
  std::string grammar = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    grammar += "r" + std::to_string(i) + " ::= " + next + " | " + next + "\n";
  }
  grammar += "r60 ::= \"a\"\n";
  const auto checked = check_grammar(words()->handle(), grammar);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message(), HasSubstr("ways to begin"));
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 2000; ++i) {
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " | \"b\"\n";
  }
  EXPECT_TRUE(check_grammar(words()->handle(), chain + "r2000 ::= \"a\"\n"));
}

TEST(GrammarTest, a_bad_schema_is_blamed) {
  for (const char* schema : {"[]", "1", R"({"type":"odd"})", R"({"$ref":"#/x"})",
                             R"({"type":"string","pattern":"^[a$"})"}) {
    const auto grammar = make_llama_schema_grammar(*words(), Json::parse(schema));
    ASSERT_FALSE(grammar) << schema;
    EXPECT_THAT(grammar.error().message(), StartsWith("json_schema: "));
  }
}

}  // namespace
}  // namespace salvage::engine
