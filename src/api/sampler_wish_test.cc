// Goal: every sampler parameter arrives where it belongs, and none that would hang or break a
// sampler. Method: JSON of each field at, and beyond, its bounds.

#include "api/sampler_wish.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salvage::api {
namespace {

SamplerWish taken_sampler(const char* text) {
  const Json json = Json::parse(text);
  Complaint complaint;
  SamplerWish wish;
  read_sampler(Fields(json, "", complaint), wish);
  const auto result = complaint.result();
  EXPECT_TRUE(result) << text << ": " << result.error().message;
  return wish;
}

ApiError refused_sampler(const Json& json) {
  Complaint complaint;
  SamplerWish wish;
  read_sampler(Fields(json, "", complaint), wish);
  const auto result = complaint.result();
  EXPECT_FALSE(result) << json;
  return result ? ApiError{} : result.error();
}

// Each field has a value of its own, so that two swapped ones show.
TEST(SamplerWish, every_parameter_arrives) {
  const SamplerWish wish = taken_sampler(R"({
    "seed": 1, "temperature": 0.02, "dynatemp_range": 0.03, "dynatemp_exponent": 0.04, "top_k": 5,
    "top_p": 0.06, "min_p": 0.07, "top_n_sigma": 0.08, "typical_p": 0.09, "xtc_probability": 0.1,
    "xtc_threshold": 0.11, "repeat_last_n": 12, "repeat_penalty": 0.13, "presence_penalty": 0.14,
    "frequency_penalty": 0.15, "dry_multiplier": 0.16, "dry_base": 1.17, "dry_allowed_length": 18,
    "dry_penalty_last_n": 19, "dry_sequence_breakers": ["a", "b"], "mirostat": 2,
    "mirostat_tau": 0.22, "mirostat_eta": 0.23, "adaptive_target": 0.24, "adaptive_decay": 0.25,
    "min_keep": 26, "ignore_eos": true})");
  SamplerWish wanted{.seed = 1,
                     .temperature = 0.02F,
                     .dynatemp_range = 0.03F,
                     .dynatemp_exponent = 0.04F,
                     .top_k = 5,
                     .top_p = 0.06F,
                     .min_p = 0.07F,
                     .top_n_sigma = 0.08F,
                     .typical_p = 0.09F,
                     .xtc_probability = 0.1F,
                     .xtc_threshold = 0.11F,
                     .repeat_last_n = 12,
                     .repeat_penalty = 0.13F,
                     .presence_penalty = 0.14F,
                     .frequency_penalty = 0.15F,
                     .dry_multiplier = 0.16F,
                     .dry_base = 1.17F,
                     .dry_allowed_length = 18,
                     .dry_penalty_last_n = 19,
                     .dry_sequence_breakers = {"a", "b"},
                     .mirostat = 2,
                     .mirostat_tau = 0.22F,
                     .mirostat_eta = 0.23F,
                     .adaptive_target = 0.24F,
                     .adaptive_decay = 0.25F,
                     .min_keep = 26,
                     .ignore_eos = true};
  EXPECT_TRUE(wish == wanted);
  EXPECT_TRUE(taken_sampler("{}") == SamplerWish{}) << "nothing said is nothing wished";
}

TEST(SamplerWish, extreme_numbers_are_refused_with_their_range) {
  EXPECT_EQ(refused_sampler({{"temperature", 999999}}).message,
            "'temperature' must be a number from 0 to 100");
  const std::pair<const char*, Json> wrong[] = {
      {"temperature", -0.1},
      {"top_p", -1},
      {"top_p", 1.01},
      {"min_p", 2},
      {"repeat_penalty", 0},
      {"top_k", -2},
      {"typical_p", 1.5},
      {"mirostat", 3},
      {"adaptive_decay", 1},
      {"presence_penalty", 1000},
      {"repeat_last_n", -2},
      {"repeat_last_n", 1 << 21},
      {"xtc_probability", "0.5"},
      {"dry_base", -1},
      {"min_keep", -1},
      {"dry_allowed_length", -1},
      {"top_k", 1.5},
      {"seed", "1"},
      {"seed", 1.5},
      {"ignore_eos", 1},
      {"dry_sequence_breakers", "a"},
      {"temperature", std::nan("")},
  };
  for (const auto& [key, value] : wrong) {
    Json json = Json::object();
    json[key] = value;
    EXPECT_EQ(refused_sampler(json).param, key) << value;
  }
}

TEST(SamplerWish, words_for_all_and_for_the_default_are_understood) {
  EXPECT_EQ(taken_sampler(R"({"top_k": -1})").top_k, 0);
  EXPECT_EQ(taken_sampler(R"({"repeat_last_n": -1})").repeat_last_n, -1);
  EXPECT_EQ(taken_sampler(R"({"dry_base": 0.5})").dry_base, std::nullopt);
  EXPECT_EQ(taken_sampler(R"({"temperature": null})").temperature, std::nullopt);
}

TEST(SamplerWish, any_64_bit_number_is_a_seed_and_minus_one_is_none) {
  EXPECT_EQ(taken_sampler(R"({"seed": -1})").seed, std::nullopt);
  EXPECT_EQ(taken_sampler(R"({"seed": 0})").seed, 0U);
  EXPECT_EQ(taken_sampler(R"({"seed": 18446744073709551615})").seed, UINT64_MAX);
  EXPECT_EQ(taken_sampler(R"({"seed": -2})").seed, UINT64_MAX - 1);
}

TEST(SamplerWish, biases_come_by_id_or_text_as_object_or_pairs) {
  const std::vector<TokenBias> wanted = {
      {TokenId{15}, -1.5F}, {std::string("he"), 2.0F}, {TokenId{7}, -INFINITY}};
  EXPECT_EQ(taken_sampler(R"({"logit_bias": {"15": -1.5, "he": 2, "7": false}})").logit_bias,
            wanted);
  EXPECT_EQ(taken_sampler(R"({"logit_bias": [[15, -1.5], ["he", 2], [7, false]]})").logit_bias,
            wanted);
  const std::vector<TokenBias> texts = {{std::string("-1"), 1.0F}, {std::string("1a"), 1.0F}};
  EXPECT_EQ(taken_sampler(R"({"logit_bias": {"-1": 1, "1a": 1}})").logit_bias, texts);
  for (const char* wrong : {R"({"1": true})", R"({"1": "x"})", R"([[1]])", R"([[-1, 2]])",
                            R"([1, 2])", R"("x")", R"([[1.5, 2]])", R"({"1": 1e300})"}) {
    Json json = Json::object();
    json["logit_bias"] = Json::parse(wrong);
    EXPECT_EQ(refused_sampler(json).param, "logit_bias") << wrong;
  }
}

TEST(SamplerWish, samplers_are_named_or_lettered) {
  const std::vector<std::string> wanted = {"penalties", "top_k", "typ_p", "temperature"};
  EXPECT_EQ(taken_sampler(R"({"samplers": ["penalties", "Top-K", "typical_p", "temp"]})").samplers,
            wanted);
  EXPECT_EQ(taken_sampler(R"({"samplers": "ekyt"})").samplers, wanted);
  EXPECT_EQ(refused_sampler({{"samplers", "e!"}}).message,
            "'samplers' has \"!\", which is no sampler");
  EXPECT_EQ(refused_sampler({{"samplers", Json::array({"top_q"})}}).param, "samplers");
  EXPECT_EQ(refused_sampler({{"samplers", Json::array({"|"})}}).param, "samplers");
  EXPECT_EQ(refused_sampler({{"samplers", 1}}).param, "samplers");
  EXPECT_EQ(refused_sampler({{"samplers", "i"}}).param, "samplers");
}

}  // namespace
}  // namespace salvage::api
