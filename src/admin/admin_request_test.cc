// Goal: a request is either exactly what was meant or refused by the name of the key. Method: each
// request written and read back, then with one thing wrong at a time.

#include "admin/admin_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::admin {
namespace {

using testing::HasSubstr;

template <typename Value>
std::string refusal(const Result<Value>& result) {
  return result ? std::string("accepted") : result.error().message();
}

TEST(AdminRequest, what_is_encoded_reads_back) {
  const InviteRequest invite{.uses = 3, .ttl_seconds = 60, .ephemeral = true, .label = "Küche"};
  EXPECT_EQ(*parse_invite(encode(invite)), invite);
  const RenameRequest rename{.node = "pi", .name = "pi-3"};
  EXPECT_EQ(*parse_rename(encode(rename)), rename);
  const LeaveRequest leave{.forget = true};
  EXPECT_EQ(*parse_leave(encode(leave)), leave);
  const GcRequest gc{.dry_run = true, .bytes_max = 7};
  EXPECT_EQ(*parse_gc(encode(gc)), gc);
  LoadRequest load;
  load.path = "/models/a.gguf";
  load.split = {6, 6, 4};
  load.pins = {"pi-3=4:8"};
  load.exact = true;
  load.wait = false;
  EXPECT_EQ(*parse_load(encode(load)), load);
}

TEST(AdminRequest, a_run_reads_back) {
  coordinator::RunWish wish;
  wish.model = "smollm";
  wish.prompt = "为什么？\n\"";
  wish.chat = true;
  wish.tokens_max = 12;
  wish.hash_logits = true;
  wish.sampling.seed = UINT64_MAX;
  wish.sampling.temperature = 0;
  const auto read = parse_run(encode(wish));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->prompt, wish.prompt);
  EXPECT_EQ(read->sampling.seed, UINT64_MAX);
  EXPECT_EQ(read->sampling.temperature, 0);
  EXPECT_TRUE(read->chat && read->hash_logits);
  EXPECT_EQ(encode(*read), encode(wish));
}

TEST(AdminRequest, missing_keys_take_their_defaults) {
  EXPECT_EQ(*parse_invite("{}"), InviteRequest{});
  EXPECT_EQ(parse_load(R"({"model":"a"})")->sequences, 0U);
}

TEST(AdminRequest, an_unknown_key_is_named) {
  EXPECT_THAT(refusal(parse_invite(R"({"usess":2})")), HasSubstr("usess"));
  EXPECT_THAT(refusal(parse_run(R"({"prompt":"x","stream":true})")), HasSubstr("stream"));
}

TEST(AdminRequest, a_wrong_type_or_value_names_its_key) {
  for (const char* body :
       {R"({"uses":"2"})", R"({"uses":0})", R"({"uses":1001})", R"({"uses":-1})", R"({"uses":1.5})",
        R"({"uses":18446744073709551617})", R"({"uses":true})", R"({"uses":null})"}) {
    EXPECT_THAT(refusal(parse_invite(body)), HasSubstr("\"uses\"")) << body;
  }
  EXPECT_THAT(refusal(parse_run(R"({"prompt":"x","temperature":-1})")), HasSubstr("temperature"));
  EXPECT_THAT(refusal(parse_load(R"({"model":"a","split":[1,-1]})")), HasSubstr("split"));
  EXPECT_THAT(refusal(parse_load(R"({"model":"a","pins":[1]})")), HasSubstr("pins"));
  EXPECT_THAT(refusal(parse_load(R"({"model":"a","hidden":"f8"})")), HasSubstr("hidden"));
  EXPECT_THAT(refusal(parse_load(R"({"path":"a.gguf"})")), HasSubstr("absolute"));
}

TEST(AdminRequest, what_is_required_is_asked_for) {
  EXPECT_THAT(refusal(parse_run("{}")), HasSubstr("prompt"));
  EXPECT_THAT(refusal(parse_load("{}")), HasSubstr("model"));
  EXPECT_THAT(refusal(parse_rename(R"({"node":"a"})")), HasSubstr("name"));
  EXPECT_THAT(refusal(parse_named("{}", "node")), HasSubstr("node"));
  const std::string path = "/" + std::string(3000, 'x');
  EXPECT_EQ(parse_named(encode_named("model", path), "model")->value, path);
  EXPECT_THAT(refusal(parse_named(encode_named("node", path), "node")), HasSubstr("longer"));
}

TEST(AdminRequest, only_an_object_is_a_request) {
  for (const char* body : {"", "[]", "1", "null", "{", "{}{}"}) {
    EXPECT_FALSE(parse_leave(body)) << body;
  }
}

TEST(AdminRequest, long_texts_and_lists_are_refused) {
  EXPECT_FALSE(parse_rename(R"({"name":")" + std::string(513, 'a') + R"("})"));
  std::string split = "0";
  for (std::size_t i = 0; i < kNodesMax; ++i) split += ",0";
  EXPECT_FALSE(parse_load(R"({"model":"a","split":[)" + split + "]}"));
  EXPECT_FALSE(parse_leave(std::string(kSmallBodyBytesMax + 1, ' ')));
}

TEST(AdminRequest, a_refusal_quotes_no_control_characters) {
  const std::string told = refusal(parse_leave(R"({"\u001b[31m":1})"));
  EXPECT_THAT(told, HasSubstr("?[31m"));
  EXPECT_EQ(told.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace salvage::admin
