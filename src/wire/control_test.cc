// Goal: control messages survive the way, tolerate what a newer peer adds, and refuse what is
// broken; joining follows docs/wire.md. Method: random messages from the field lists; bodies edited
// as JSON.

#include "wire/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include "wire/control_generate.h"

namespace salvage::wire {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

template <typename Message>
class EachControlMessage : public testing::Test {};
using Messages =
    testing::Types<Hello, HelloReply, LoadStage, StageLoaded, StageFailed, StatsRequest, Stats,
                   Ping, Pong, Progress, Unload, Shutdown, JoinRequest, JoinReply, NodeFacts,
                   NodeStatus, ClusterView, MemberRequest, MemberReply, Inventory, FetchOrder,
                   FetchProgress, StartStage, StageListening, BlobRequest, BlobReply>;
TYPED_TEST_SUITE(EachControlMessage, Messages);

std::vector<std::byte> cbor(const Json& json) {
  const auto bytes = Json::to_cbor(json);
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}
Json parse(const std::vector<std::byte>& body) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(body.data());
  return Json::from_cbor(begin, begin + body.size());
}

TYPED_TEST(EachControlMessage, comes_back_as_it_went) {
  EXPECT_TRUE(rc::check("decode(encode(x)) == x", [](std::uint64_t seed) {
    const auto message = generate_control<TypeParam>(seed);
    std::vector<std::byte> body;
    RC_ASSERT(encode_control(message, body).has_value());
    const auto back = decode_control<TypeParam>(body);
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == message);
  }));
}

TYPED_TEST(EachControlMessage, ignores_a_key_that_it_does_not_know) {
  std::vector<std::byte> body;
  const auto message = generate_control<TypeParam>(1);
  ASSERT_TRUE(encode_control(message, body));
  Json map = parse(body);
  map["from_the_future"] = {{"deep", {1, 2, 3}}};
  const auto back = decode_control<TypeParam>(cbor(map));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, message);
}

TYPED_TEST(EachControlMessage, misses_each_required_key_and_no_optional_one) {
  std::vector<std::byte> body;
  ASSERT_TRUE(encode_control(generate_control<TypeParam>(2), body));
  visit_fields(Of<TypeParam>{}, [&](const char* key, auto, FieldTraits traits) {
    Json map = parse(body);
    map.erase(key);
    const auto back = decode_control<TypeParam>(cbor(map));
    EXPECT_EQ(back.has_value(), !traits.required) << key;
    if (!back) {
      EXPECT_THAT(back.error().message(), HasSubstr(std::string(key) + " is missing"));
    }
  });
}

TYPED_TEST(EachControlMessage, refuses_a_value_of_another_type_and_names_the_key) {
  std::vector<std::byte> body;
  ASSERT_TRUE(encode_control(generate_control<TypeParam>(3), body));
  visit_fields(Of<TypeParam>{}, [&](const char* key, auto, FieldTraits) {
    Json map = parse(body);
    map[key] = Json::object();
    const auto back = decode_control<TypeParam>(cbor(map));
    ASSERT_FALSE(back) << key;
    EXPECT_EQ(back.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(back.error().message(), HasSubstr(key));
  });
}

TYPED_TEST(EachControlMessage, every_truncation_is_corrupt) {
  std::vector<std::byte> body;
  ASSERT_TRUE(encode_control(generate_control<TypeParam>(4), body));
  for (std::size_t length = 0; length < body.size(); ++length) {
    ASSERT_FALSE(decode_control<TypeParam>(std::span(body).first(length))) << length;
  }
}

TEST(Control, numbers_that_do_not_fit_are_refused) {
  std::vector<std::byte> body;
  ASSERT_TRUE(encode_control(Hello{}, body));
  Json map = parse(body);
  map["stage_index"] = std::uint64_t{1} << 32;
  EXPECT_FALSE(decode_control<Hello>(cbor(map)));
  map["stage_index"] = -1;
  EXPECT_FALSE(decode_control<Hello>(cbor(map)));
  map["stage_index"] = 1.0;
  EXPECT_FALSE(decode_control<Hello>(cbor(map)));
}

TEST(Control, endless_nesting_is_refused_without_recursing) {
  const std::vector<std::byte> arrays(kControlBodyBytesMax, std::byte{0x81});
  EXPECT_FALSE(decode_control<Ping>(arrays));
  std::vector<std::byte> maps;
  while (maps.size() + 3 < kControlBodyBytesMax) {
    for (const int byte : {0xA1, 0x61, 0x61}) maps.push_back(static_cast<std::byte>(byte));
  }
  EXPECT_FALSE(decode_control<Ping>(maps));
}

TEST(Control, counts_that_no_body_could_hold_are_refused) {
  // An array, a text and a map that announce 2^63 items.
  for (const int head : {0x9B, 0x7B, 0xBB}) {
    std::vector<std::byte> body = {static_cast<std::byte>(head), std::byte{0x7F}};
    body.resize(64, std::byte{0xFF});
    EXPECT_FALSE(decode_control<Ping>(body));
  }
}

TEST(Control, texts_and_lists_over_their_limits_are_refused_both_ways) {
  LoadStage load;
  load.weights.assign(kTextBytesMax, 'x');
  load.cores.resize(kListItemsMax);
  std::vector<std::byte> body;
  ASSERT_TRUE(encode_control(load, body));
  ASSERT_TRUE(decode_control<LoadStage>(body));
  Json map = parse(body);
  map["weights"] = std::string(kTextBytesMax + 1, 'x');
  EXPECT_FALSE(decode_control<LoadStage>(cbor(map)));
  load.weights.push_back('x');
  EXPECT_FALSE(encode_control(load, body));
  load.weights.clear();
  load.cores.push_back(1);
  EXPECT_FALSE(encode_control(load, body));
}

TEST(Control, a_long_error_message_is_cut_at_a_character_and_still_arrives) {
  StageFailed failed;
  failed.message = "x";
  while (failed.message.size() < 2 * kTextBytesMax) failed.message += "\xE4\xB8\xAD";
  std::vector<std::byte> body;
  ASSERT_TRUE(encode_control(failed, body));
  const auto back = decode_control<StageFailed>(body);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->message, failed.message.substr(0, kTextBytesMax));  // 1 + 1365 x 3 = 4096
  failed.message.insert(0, "y");
  ASSERT_TRUE(encode_control(failed, body));
  EXPECT_EQ(decode_control<StageFailed>(body)->message,
            failed.message.substr(0, kTextBytesMax - 2));
}

TEST(Control, a_description_never_shows_the_token) {
  Hello hello;
  hello.llama_pin = "v0.4.0";
  hello.auth_token = "secret-secret";
  const std::string line = describe(hello);
  EXPECT_THAT(line, HasSubstr("hello wire_version=2 wire_version_min=1 llama_pin=\"v0.4.0\""));
  EXPECT_THAT(line, HasSubstr("auth_token=***"));
  EXPECT_THAT(line, Not(HasSubstr("secret")));
}

class Joining : public testing::Test {
 protected:
  Joining() {
    local.llama_pin = "v0.4.0";
    local.auth_token = std::string(kAuthTokenBytes, 'a');
    local.epoch.value = 5;
    hello.llama_pin = local.llama_pin;
    hello.auth_token = local.auth_token;
    hello.role = LinkRole::kData;
    hello.epoch = 5;
  }
  Error refusal() {
    const HelloReply reply = answer_hello(hello, local, 3);
    EXPECT_FALSE(reply.accepted);
    EXPECT_EQ(reply.initial_credits, 0U);
    const auto checked = check_hello_reply(reply);
    return checked ? Error(ErrorCode::kInternal, "not refused") : checked.error();
  }
  LocalVersion local;
  Hello hello;
};

TEST_F(Joining, a_peer_of_the_same_plan_gets_its_credits) {
  const HelloReply reply = answer_hello(hello, local, 3);
  EXPECT_TRUE(reply.accepted);
  EXPECT_EQ(reply.initial_credits, 3U);
  EXPECT_EQ(reply.wire_version, kWireVersion);
  EXPECT_TRUE(check_hello_reply(reply));
}

TEST_F(Joining, a_wrong_or_missing_token_is_refused_before_anything_is_told) {
  hello.llama_pin = "v9";
  hello.auth_token[63] = 'b';
  EXPECT_EQ(refusal().code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(refusal().message(), Not(HasSubstr("v0.4.0")));
  hello.auth_token.clear();
  EXPECT_EQ(refusal().code(), ErrorCode::kUnauthenticated);
  local.auth_token.clear();
  EXPECT_EQ(refusal().code(), ErrorCode::kUnauthenticated) << "no token is not an open door";
}

TEST_F(Joining, other_versions_and_pins_are_refused_by_name_of_both) {
  hello.llama_pin = "v0.5.1";
  EXPECT_EQ(refusal().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(refusal().message(), HasSubstr("llama.cpp v0.5.1, this program v0.4.0"));
  hello.wire_version = 9;
  hello.wire_version_min = 8;
  EXPECT_THAT(refusal().message(), HasSubstr("wire versions 8 to 9, this program 1 to 2"));
}

TEST_F(Joining, a_newer_peer_that_still_speaks_ours_is_answered_in_ours) {
  hello.wire_version = kWireVersion + 1;
  hello.wire_version_min = kWireVersion;
  const HelloReply reply = answer_hello(hello, local, 1);
  EXPECT_TRUE(reply.accepted);
  EXPECT_EQ(reply.wire_version, kWireVersion);
}

TEST_F(Joining, the_version_before_is_answered_in_its_own) {
  hello.wire_version = kWireVersionMin;
  const HelloReply reply = answer_hello(hello, local, 1);
  EXPECT_TRUE(reply.accepted);
  EXPECT_EQ(reply.wire_version, kWireVersionMin);
}

TEST_F(Joining, a_certificate_stands_for_a_token_where_the_listener_says_so) {
  hello.auth_token.clear();
  hello.role = LinkRole::kNode;
  local.certificate_suffices = true;
  EXPECT_TRUE(answer_hello(hello, local, 1).accepted);
  hello.llama_pin = "v9";
  EXPECT_EQ(refusal().code(), ErrorCode::kUnsupported);
}

TEST_F(Joining, an_old_plan_epoch_is_refused_on_data_links_only) {
  hello.epoch = 4;
  EXPECT_EQ(refusal().code(), ErrorCode::kStalePlan);
  hello.role = LinkRole::kControl;
  EXPECT_TRUE(answer_hello(hello, local, 1).accepted);
}

TEST_F(Joining, another_kernel_fingerprint_is_let_in) {
  hello.kernel_fingerprint = "avx512";
  EXPECT_TRUE(answer_hello(hello, local, 1).accepted);
}

TEST(HelloReply, a_listener_that_chose_an_unknown_version_or_grants_too_much_is_left) {
  HelloReply reply;
  reply.accepted = true;
  reply.wire_version = kWireVersion + 1;
  EXPECT_FALSE(check_hello_reply(reply));
  reply.wire_version = kWireVersion;
  reply.initial_credits = kCreditsMax + 1;
  EXPECT_FALSE(check_hello_reply(reply));
}

TEST(ErrorCodes, every_name_reads_back_and_unknown_ones_are_internal) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_EQ(parse_error_code(error_code_name(code)), code);
  }
  EXPECT_EQ(parse_error_code("from_the_future"), ErrorCode::kInternal);
}

}  // namespace
}  // namespace salvage::wire
