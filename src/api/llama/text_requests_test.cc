// Goal: /tokenize and /detokenize take what llama.cpp's clients send, and give what they read.
// Method: bodies in, bodies out.

#include "api/llama/text_requests.h"

#include <gtest/gtest.h>

namespace salvage::api {
namespace {

TEST(TextRequests, tokenize_has_llama_cpps_defaults) {
  const auto request = parse_tokenize(R"({"content": "天"})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->content, (Prompt{"天"}));
  EXPECT_FALSE(request->add_special || request->with_pieces);
  EXPECT_TRUE(request->parse_special);
  const auto other = parse_tokenize(R"({"content": ["a", 5, 6], "add_special": true,
                                        "parse_special": false, "with_pieces": true})");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->content, (Prompt{"a", std::vector<TokenId>{5, 6}}));
  EXPECT_TRUE(other->add_special && other->with_pieces);
  EXPECT_FALSE(other->parse_special);
  EXPECT_TRUE(parse_tokenize("{}")->content.empty());
}

TEST(TextRequests, wrong_contents_are_named) {
  EXPECT_EQ(parse_tokenize(R"({"content": 5})").error().param, "content");
  EXPECT_EQ(parse_tokenize(R"({"content": [11]})", {.vocabulary_size = 11}).error().param,
            "content[0]");
  EXPECT_EQ(parse_tokenize("[]").error().kind, ErrorKind::kInvalidJson);
  EXPECT_EQ(parse_detokenize(R"({"tokens": "x"})").error().param, "tokens");
  EXPECT_EQ(parse_detokenize(R"({"tokens": [1, "x"]})").error().param, "tokens[1]");
  EXPECT_EQ(parse_detokenize(R"({"tokens": [7]})", {.vocabulary_size = 7}).error().param,
            "tokens[0]");
}

TEST(TextRequests, detokenize_takes_ids) {
  EXPECT_EQ(*parse_detokenize(R"({"tokens": [1, 2]})"), (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(parse_detokenize("{}")->empty());
}

TEST(TextRequests, bodies) {
  EXPECT_EQ(tokens_body(std::vector<TokenId>{1, 2}), R"({"tokens":[1,2]})");
  EXPECT_EQ(tokens_body({}), R"({"tokens":[]})");
  EXPECT_EQ(pieces_body(std::vector<TokenPiece>{{1, "a"}, {2, "\xE5\xA4"}}),
            R"({"tokens":[{"id":1,"piece":"a"},{"id":2,"piece":[229,164]}]})");
  EXPECT_EQ(content_body("天\xff"), "{\"content\":\"天\xEF\xBF\xBD\"}");
  EXPECT_EQ(template_body("<s>"), R"({"prompt":"<s>"})");
}

}  // namespace
}  // namespace salvage::api
