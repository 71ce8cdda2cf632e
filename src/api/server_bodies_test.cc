// Goal: probes and llama.cpp's page read what they know. Method: the bodies, byte by byte.

#include "api/server_bodies.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salvage::api {
namespace {

TEST(ServerBodies, health_is_ok_or_loading) {
  EXPECT_EQ(health_answer(false).status, 200);
  EXPECT_EQ(health_answer(false).body, R"({"status":"ok"})");
  const ErrorAnswer loading = health_answer(true);
  EXPECT_EQ(loading.status, 503);
  EXPECT_EQ(loading.body,
            R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})");
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
