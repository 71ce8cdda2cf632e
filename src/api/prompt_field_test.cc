// Goal: a prompt in any of its forms becomes the same texts and ids. Method: completions of each.

#include "api/prompt_field.h"

#include <gtest/gtest.h>

#include "api/limits.h"
#include "api/test_request.h"

namespace salvage::api {
namespace {

using Ids = std::vector<TokenId>;

std::vector<Prompt> prompts_of(const std::string& prompt) {
  return taken(Dialect::kCompletions, "{\"prompt\": " + prompt + "}").prompts;
}

TEST(PromptField, texts_ids_and_mixtures) {
  EXPECT_EQ(prompts_of(R"("天空")"), (std::vector<Prompt>{{"天空"}}));
  EXPECT_EQ(prompts_of(R"(["a", "b"])"), (std::vector<Prompt>{{"a"}, {"b"}}));
  EXPECT_EQ(prompts_of("[1, 2]"), (std::vector<Prompt>{{Ids{1, 2}}}));
  EXPECT_EQ(prompts_of("[[1], [2, 3]]"), (std::vector<Prompt>{{Ids{1}}, {Ids{2, 3}}}));
  EXPECT_EQ(prompts_of(R"([1, 2, "a", 3])"), (std::vector<Prompt>{{Ids{1, 2}, "a", Ids{3}}}));
  EXPECT_EQ(prompts_of(R"([["a", "b"], "c"])"), (std::vector<Prompt>{{"a", "b"}, {"c"}}));
  EXPECT_EQ(prompts_of(R"({"prompt_string": "a"})"), (std::vector<Prompt>{{"a"}}));
}

TEST(PromptField, wrong_prompts_are_named) {
  const auto param = [](const std::string& prompt) {
    return refused(Dialect::kCompletions, "{\"prompt\": " + prompt + "}").param;
  };
  EXPECT_EQ(refused(Dialect::kCompletions, "{}").kind, ErrorKind::kMissingValue);
  EXPECT_EQ(param("[]"), "prompt");
  EXPECT_EQ(param("5"), "prompt");
  EXPECT_EQ(param("[1, -2]"), "prompt[1]");
  EXPECT_EQ(param("[1, 2.5]"), "prompt[1]");
  EXPECT_EQ(param("[[1], [true]]"), "prompt[1][0]");
  EXPECT_EQ(param("[true]"), "prompt[0]");
  EXPECT_EQ(param("{}"), "prompt.prompt_string");
  EXPECT_EQ(
      refused(Dialect::kLlama, R"({"prompt": {"prompt_string": "a", "multimodal_data": ["x"]}})")
          .kind,
      ErrorKind::kNotSupported);
}

TEST(PromptField, ids_are_of_the_models_vocabulary) {
  const ParseLimits limits{.vocabulary_size = 10};
  EXPECT_EQ(taken(Dialect::kLlama, R"({"prompt": [9]})", limits).prompts.size(), 1U);
  EXPECT_EQ(refused(Dialect::kLlama, R"({"prompt": [10]})", limits).message,
            "'prompt[0]' must be a token id of this model: a whole number from 0 to 9");
  EXPECT_EQ(taken(Dialect::kLlama, R"({"prompt": [2147483647]})").prompts.size(), 1U);
  EXPECT_EQ(refused(Dialect::kLlama, R"({"prompt": [2147483648]})").param, "prompt[0]");
}

TEST(PromptField, all_prompts_together_have_a_bound) {
  std::string list = "[\"0\"";
  for (std::size_t i = 1; i < kPromptsMax; ++i) list += ", \"x\"";
  EXPECT_EQ(prompts_of(list + "]").size(), kPromptsMax);
  EXPECT_EQ(refused(Dialect::kCompletions, R"({"prompt": )" + list + ", \"x\"]}").param, "prompt");
  EXPECT_EQ(refused(Dialect::kCompletions, R"({"n": 2, "prompt": )" + list + "]}").message,
            "'prompt' asks for 256 answers, at most 128 are made to one request");
}

}  // namespace
}  // namespace salvage::api
