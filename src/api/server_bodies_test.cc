// Goal: probes and llama.cpp's page read what they know. Method: the bodies, byte by byte.

#include "api/server_bodies.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salvage::api {
namespace {

TEST(ServerBodies, a_busy_slot_tells_how_far_it_is_and_an_idle_one_what_it_keeps) {
  const SlotInfo slots[] = {{.id = 0, .context_tokens = 512, .held_tokens = 7},
                            {.id = 1,
                             .context_tokens = 512,
                             .held_tokens = 44,
                             .request = 9,
                             .prompt_tokens = 40,
                             .read_tokens = 40,
                             .cached_tokens = 30,
                             .answer_tokens = 4}};
  const Json json = Json::parse(slots_body(slots));
  EXPECT_EQ(json[0], Json::parse(R"({"id":0,"n_ctx":512,"speculative":false,
                                     "is_processing":false,"n_held_tokens":7})"));
  EXPECT_EQ(json[1]["is_processing"], true);
  EXPECT_EQ(json[1]["id_task"], 9);
  EXPECT_EQ(json[1]["n_prompt_tokens"], 40);
  EXPECT_EQ(json[1]["n_prompt_tokens_processed"], 10);
  EXPECT_EQ(json[1]["n_prompt_tokens_cache"], 30);
  EXPECT_EQ(json[1]["next_token"][0]["n_decoded"], 4);
}

TEST(ServerBodies, a_query_is_read_by_name) {
  EXPECT_EQ(query_value("/slots?fail_on_no_slot=1&model=a%2Fb", "model"), "a/b");
  EXPECT_EQ(query_value("/slots?fail_on_no_slot=1&model=a", "fail_on_no_slot"), "1");
  EXPECT_EQ(query_value("/slots?model", "model"), "");
  EXPECT_EQ(query_value("/slots?&&model=x#y", "model"), "x");
  EXPECT_FALSE(query_value("/slots?xmodel=1", "model"));
  EXPECT_FALSE(query_value("/slots", "model"));
}

TEST(ServerBodies, props_hold_what_clients_look_for) {
  const Json json = Json::parse(props_body({.model = "m",
                                            .model_path = "m.gguf",
                                            .quantisation = "Q4_K",
                                            .sequence_count = 4,
                                            .context_tokens = 8192,
                                            .chat_template = "{{x}}",
                                            .begin_token = "<s>",
                                            .end_token = "</s>",
                                            .build = "b1",
                                            .default_settings = {{"top_k", 40}}}));
  EXPECT_EQ(json["total_slots"], 4);
  EXPECT_EQ(json["default_generation_settings"]["n_ctx"], 8192);
  EXPECT_EQ(json["default_generation_settings"]["params"]["top_k"], 40);
  EXPECT_EQ(json["model_path"], "m.gguf");
  EXPECT_EQ(json["model_alias"], "m");
  EXPECT_EQ(json["chat_template"], "{{x}}");
  EXPECT_EQ(json["bos_token"], "<s>");
  EXPECT_EQ(json["eos_token"], "</s>");
  EXPECT_EQ(json["build_info"], "b1");
  EXPECT_EQ(json["modalities"]["vision"], false);
}

}  // namespace
}  // namespace salvage::api
