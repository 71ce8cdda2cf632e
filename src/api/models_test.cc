// Goal: clients find the model they mean, and lists have the shape that each front end reads.
// Method: two models, asked for in many spellings.

#include "api/models.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salvage::api {
namespace {

std::vector<ModelEntry> two_models() {
  ModelEntry small{.id = "Qwen3-4B-Q4_K_M",
                   .aliases = {"qwen3", "claude-local"},
                   .created_s = 1767225600,
                   .state = ModelState::kLoaded,
                   .context_tokens = 8192,
                   .parameter_count = 4'000'000'000};
  ModelEntry large{.id = "big", .created_s = 0, .state = ModelState::kLoading, .progress = 0.25};
  return {small, large};
}

TEST(Models, a_name_is_exact_then_an_alias_then_in_other_capitals_then_latest) {
  const auto models = two_models();
  for (const char* name : {"Qwen3-4B-Q4_K_M", "qwen3", "claude-local", "qwen3-4b-q4_k_m", "QWEN3",
                           "qwen3:latest", "Qwen3-4B-Q4_K_M:latest"}) {
    const auto found = find_model(models, name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ((*found)->id, "Qwen3-4B-Q4_K_M") << name;
  }
}

TEST(Models, an_exact_name_goes_before_another_models_alias) {
  std::vector<ModelEntry> models = {{.id = "a", .aliases = {"b"}}, {.id = "b"}};
  EXPECT_EQ((*find_model(models, "b"))->id, "b");
  EXPECT_EQ((*find_model(models, "B"))->id, "b");
}

TEST(Models, an_unknown_name_is_404_with_those_that_are) {
  const auto found = find_model(two_models(), "gpt-4");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::kModelNotFound);
  EXPECT_EQ(found.error().param, "model");
  EXPECT_EQ(found.error().message, "there is no model \"gpt-4\"; there are: Qwen3-4B-Q4_K_M, big");
  EXPECT_EQ(find_model({}, "x").error().message, "there is no model \"x\"; there are: none");
  const std::vector<ModelEntry> nine(9, ModelEntry{.id = "m"});
  EXPECT_TRUE(find_model(nine, "x").error().message.ends_with("m, m, ..."));
}

TEST(Models, no_name_means_the_only_one_that_is_loaded) {
  auto models = two_models();
  EXPECT_EQ((*find_model(models, ""))->id, "Qwen3-4B-Q4_K_M");
  models[1].state = ModelState::kLoaded;
  EXPECT_FALSE(find_model(models, ""));
  models[1].state = ModelState::kLoading;
  EXPECT_EQ((*find_model(models, ""))->id, models[0].id) << "the loaded one";
  models[0].state = ModelState::kUnloaded;
  EXPECT_EQ((*find_model(models, ""))->id, models[1].id) << "the one that will be soon";
  models[0].state = ModelState::kDownloading;
  EXPECT_FALSE(find_model(models, "")) << "two of them";
}

TEST(Models, the_list_leaves_out_what_is_not_known) {
  const Json json = Json::parse(models_body(two_models(), Dress::kOpenAi));
  EXPECT_EQ(json["object"], "list");
  EXPECT_EQ(to_line(json["data"][0]),
            R"({"id":"Qwen3-4B-Q4_K_M","object":"model","created":1767225600,)"
            R"("owned_by":"salvage","name":"Qwen3-4B-Q4_K_M","aliases":["qwen3","claude-local"],)"
            R"("context_length":8192,"meta":{"n_ctx":8192,"n_params":4000000000},)"
            R"("architecture":{"input_modalities":["text"],"output_modalities":["text"]},)"
            R"("status":{"value":"loaded"},"capabilities":["completion"]})");
  EXPECT_EQ(to_line(json["data"][1]["status"]), R"({"value":"loading","progress":0.25})");
  EXPECT_FALSE(json["data"][1].contains("context_length"));
}

TEST(Models, anthropic_clients_get_their_own_list) {
  EXPECT_EQ(models_body(two_models(), Dress::kAnthropic),
            R"({"data":[{"type":"model","id":"Qwen3-4B-Q4_K_M","display_name":)"
            R"("Qwen3-4B-Q4_K_M","created_at":"2026-01-01T00:00:00Z"},{"type":"model","id":"big",)"
            R"("display_name":"big","created_at":"1970-01-01T00:00:00Z"}],"has_more":false,)"
            R"("first_id":"Qwen3-4B-Q4_K_M","last_id":"big"})");
  EXPECT_EQ(models_body({}, Dress::kAnthropic),
            R"({"data":[],"has_more":false,"first_id":null,"last_id":null})");
}

TEST(Models, one_model_is_the_lists_item) {
  const auto models = two_models();
  const Json list = Json::parse(models_body(models, Dress::kOpenAi));
  EXPECT_EQ(Json::parse(model_body(models[1], Dress::kOpenAi)), list["data"][1]);
}

}  // namespace
}  // namespace salvage::api
