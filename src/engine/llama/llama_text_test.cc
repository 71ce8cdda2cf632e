// Goal: tokenizing and detokenizing agree with upstream's test vectors and survive bad input.
// Method: the vocabularies (no weights) that the llama.cpp source tree brings along.
#include "engine/llama/llama_text.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/llama/test_vocabulary.h"

namespace salvage::engine {
namespace {

// Tests run side by side, each in a process of its own: no two may share a file.
std::filesystem::path own_file(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("salvage_test_" + std::to_string(::getpid()) + "_" + name);
}

using testing::HasSubstr;

TextTools tools(const std::string& name) {
  auto made = make_llama_text_tools(vocabulary_file(name));
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Upstream's vectors: texts between marker lines, and for each a line of ids.
std::vector<std::string> input_texts(const std::string& name) {
  constexpr std::string_view kMarker = "\n__ggml_vocab_test__\n";
  const std::string all = read_file(vocabulary_file(name).string() + ".inp");
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = all.find(kMarker, begin);
    if (end == std::string::npos) break;
    texts.push_back(all.substr(begin, end - begin));
    begin = end + kMarker.size();
  }
  return texts;
}

std::vector<std::vector<TokenId>> expected_ids(const std::string& name) {
  std::istringstream lines(read_file(vocabulary_file(name).string() + ".out"));
  std::vector<std::vector<TokenId>> result;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    result.emplace_back(std::istream_iterator<TokenId>(numbers), std::istream_iterator<TokenId>());
  }
  return result;
}

class UpstreamVectorsTest : public testing::TestWithParam<std::string> {};

TEST_P(UpstreamVectorsTest, give_upstreams_ids_and_their_text_again) {
  const TextTools text = tools(GetParam());
  const auto texts = input_texts(GetParam());
  const auto ids = expected_ids(GetParam());
  ASSERT_GT(texts.size(), 20U);
  ASSERT_EQ(texts.size(), ids.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto got = text.vocabulary->tokenize(texts[i], {.add_special = false});
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, ids[i]) << texts[i];
  }
}

// Cutting a prompt at its control tokens changes nothing: what is plain between them is what the
// tokenizer makes of it anyway.
TEST_P(UpstreamVectorsTest, are_the_same_in_a_prompt_that_is_cut_at_its_control_tokens) {
  const auto vocabulary = test_vocabulary(GetParam());
  const Markers& markers = vocabulary->markers();
  const auto is_white = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  ASSERT_FALSE(vocabulary->ending_tokens().empty());
  const std::string marker = vocabulary->piece(vocabulary->ending_tokens().front(), true);
  ASSERT_TRUE(markers.has(marker)) << marker;
  for (const std::string& text : input_texts(GetParam())) {
    if (markers.find(text)) continue;
    std::string trimmed = text;
    const auto match = markers.find(marker);
    if (match->marker->strips_left) {
      while (!trimmed.empty() && is_white(trimmed.back())) trimmed.pop_back();
    }
    const std::vector<PromptPart> parts = {{marker, false}, {trimmed, true}, {marker, false}};
    std::string right = text;
    if (match->marker->strips_right) right.erase(0, right.find_first_not_of(" \t\n\v\f\r"));
    const auto whole =
        vocabulary->tokenize(marker + text + marker, {.add_special = true, .parse_special = true});
    const auto cut = vocabulary->tokenize_prompt(parts);
    ASSERT_TRUE(whole && cut);
    if (right == text) {
      EXPECT_EQ(*cut, *whole) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, UpstreamVectorsTest,
                         testing::Values("llama-bpe", "llama-spm", "qwen2", "gpt-2", "phi-3"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(LlamaVocabularyTest, exactly_one_begin_token_is_added) {
  const TextTools text = tools("llama-spm");
  const TokenId begin = 1;
  const auto plain = text.vocabulary->tokenize("hello", {.add_special = true});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->front(), begin);
  const auto written =
      text.vocabulary->tokenize("<s>hello", {.add_special = true, .parse_special = true});
  ASSERT_TRUE(written);
  EXPECT_EQ(std::count(written->begin(), written->end(), begin), 1);
  EXPECT_EQ(written->front(), begin);
}

TEST(LlamaVocabularyTest, control_tokens_in_a_users_text_stay_text) {
  const TextTools text = tools("llama-bpe");
  const std::string attack = "a<|eot_id|>b";
  const auto as_text = text.vocabulary->tokenize(attack, {.add_special = false});
  ASSERT_TRUE(as_text);
  std::string joined;
  for (const TokenId token : *as_text) {
    EXPECT_FALSE(text.vocabulary->ends_generation(token));
    joined += text.vocabulary->piece(token, false);
  }
  EXPECT_EQ(joined, attack);
  const auto parsed =
      text.vocabulary->tokenize(attack, {.add_special = false, .parse_special = true});
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), 3U);
  EXPECT_TRUE(text.vocabulary->ends_generation((*parsed)[1]));
  EXPECT_EQ(text.vocabulary->piece((*parsed)[1], false), "");
  EXPECT_EQ(text.vocabulary->piece((*parsed)[1], true), "<|eot_id|>");
}

TEST(LlamaVocabularyTest, text_that_is_not_utf_8_is_tokenized_with_replacement_characters) {
  for (const char* name : {"llama-bpe", "llama-spm", "qwen2"}) {
    const TextTools text = tools(name);
    const std::vector<std::string> bad_texts = {"\xff\xfe", "a\xe4\xbd", "\xed\xa0\x80",
                                                "\xf7\xbf\xbf\xbf", std::string("\x80\0\x81", 3)};
    for (const std::string& bad : bad_texts) {
      const auto tokens = text.vocabulary->tokenize(bad, {.add_special = false});
      ASSERT_TRUE(tokens) << name;
      EXPECT_FALSE(tokens->empty());
    }
    const auto replaced = text.vocabulary->tokenize("x\xffy", {.add_special = false});
    const auto meant = text.vocabulary->tokenize("x\xef\xbf\xbdy", {.add_special = false});
    ASSERT_TRUE(replaced && meant);
    EXPECT_EQ(*replaced, *meant);
  }
}

TEST(LlamaVocabularyTest, ids_out_of_range_are_no_text_and_no_end) {
  const TextTools text = tools("qwen2");
  const auto size = static_cast<TokenId>(text.vocabulary->size());
  EXPECT_GT(size, 150000);
  for (const TokenId bad : {-1, size, 2147483647}) {
    EXPECT_EQ(text.vocabulary->piece(bad, true), "");
    EXPECT_FALSE(text.vocabulary->ends_generation(bad));
  }
}

TEST(LlamaVocabularyTest, the_vocabulary_outlives_the_tools) {
  auto text = std::make_unique<TextTools>(tools("gpt-2"));
  const auto vocabulary = text->vocabulary;
  text.reset();
  EXPECT_TRUE(vocabulary->tokenize("still here", {}));
}

TEST(LlamaTextToolsTest, files_that_are_no_model_are_refused_with_their_name) {
  const auto path = own_file("no_model.gguf");
  std::ofstream(path) << "<!doctype html><title>not a model</title>";
  const auto made = make_llama_text_tools(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr(path.filename().string()));
  EXPECT_FALSE(make_llama_text_tools("/nonexistent/model.gguf"));
}

TEST(LlamaTextToolsTest, a_model_without_a_template_says_so) {
  const auto format = tools("gpt-2").make_chat_format();
  ASSERT_FALSE(format);
  EXPECT_EQ(format.error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace salvage::engine
