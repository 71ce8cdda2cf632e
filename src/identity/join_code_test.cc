// Goal: a code that was made reads back, a slip of the hand is called one, and no other text gets
// through. Method: fixed values, each character changed once, each length cut.

#include "identity/join_code.h"

#include <cctype>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "identity/base32.h"

namespace salvage::identity {
namespace {

using testing::HasSubstr;

JoinCode example() {
  JoinCode code;
  code.cluster_id = "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef";
  code.invite_id = "0102030405060708";
  code.secret = "f0e1d2c3b4a5968778695a4b3c2d1e0f";
  code.addresses = {{"192.168.1.20", 7420}, {"fd00::1:2", 7420}, {"10.0.0.1", 65535}};
  return code;
}

std::string text_of(const JoinCode& code) {
  const auto text = encode_join_code(code);
  EXPECT_TRUE(text) << text.error().message();
  return text ? *text : std::string();
}

TEST(JoinCode, what_was_made_reads_back) {
  JoinCode code = example();
  while (true) {
    const std::string text = text_of(code);
    EXPECT_TRUE(text.starts_with("slv1."));
    const auto back = parse_join_code(text);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(*back, code);
    if (code.addresses.empty()) break;
    code.addresses.pop_back();
  }
}

TEST(JoinCode, one_address_makes_a_code_of_little_over_a_hundred_characters) {
  JoinCode code = example();
  code.addresses.resize(1);
  EXPECT_EQ(text_of(code).size(), 5U + 109U);
}

TEST(JoinCode, case_dashes_and_spaces_do_not_matter) {
  std::string written = "  ";
  for (const char c : text_of(example())) {
    written.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
    if (written.size() % 6 == 0 && written.size() > 8)
      written += written.size() % 4 == 0 ? "-" : " ";
  }
  written += "\n";
  const auto back = parse_join_code(written);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, example());
}

TEST(JoinCode, every_single_wrong_character_is_found) {
  const std::string text = text_of(example());
  for (std::size_t at = 5; at < text.size(); ++at) {
    std::string wrong = text;
    wrong[at] = text[at] == '7' ? '8' : '7';
    const auto refused = parse_join_code(wrong);
    ASSERT_FALSE(refused) << at;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr("copy it again")) << at;
  }
}

TEST(JoinCode, every_shortened_code_is_refused) {
  const std::string text = text_of(example());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_join_code(text.substr(0, length))) << length;
  }
}

TEST(JoinCode, swapped_neighbours_are_found) {
  const std::string text = text_of(example());
  for (std::size_t at = 5; at + 1 < text.size(); ++at) {
    if (text[at] == text[at + 1]) continue;
    std::string wrong = text;
    std::swap(wrong[at], wrong[at + 1]);
    EXPECT_FALSE(parse_join_code(wrong)) << at;
  }
}

TEST(JoinCode, the_message_says_what_kind_of_text_it_is) {
  const std::pair<std::string, const char*> wrong[] = {
      {"", "empty"},
      {" \n", "empty"},
      {"hello", "begin with slv1."},
      {"slv2.abcdef", "another version"},
      {"slv1.", "cut off"},
      {"slv1.u", "'u'"},
      {std::string(kJoinCodeTextMax + 1, 'a'), "too long"}};
  for (const auto& [text, why] : wrong) {
    const auto refused = parse_join_code(text);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr(why));
  }
}

// Contents that fit their checksum and still say nothing sensible: made by hand, since no encoder
// of ours makes them.
TEST(JoinCode, contents_that_do_not_add_up_are_refused) {
  const std::string good = *base32_decode(text_of(example()).substr(5));
  const std::string head = good.substr(0, 56);
  const auto coded = [](std::string content) {
    content += std::string(4, '\0');
    return "slv1." + base32_encode(content);
  };
  EXPECT_FALSE(parse_join_code(coded(head + '\x09')));  // a checksum of zeros doesn't fit either
  JoinCode code = example();
  code.addresses.assign(kJoinAddressesMax + 1, {"10.0.0.1", 1});
  EXPECT_FALSE(encode_join_code(code));
}

TEST(JoinCode, what_can_not_stand_in_a_code_is_not_encoded) {
  const auto refused_after = [](void (*change)(JoinCode&)) {
    JoinCode code = example();
    change(code);
    const auto text = encode_join_code(code);
    return !text && text.error().code() == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused_after([](JoinCode& c) { c.cluster_id.pop_back(); }));
  EXPECT_TRUE(refused_after([](JoinCode& c) { c.cluster_id[0] = 'X'; }));
  EXPECT_TRUE(refused_after([](JoinCode& c) { c.invite_id = "01"; }));
  EXPECT_TRUE(refused_after([](JoinCode& c) { c.secret += "00"; }));
  EXPECT_TRUE(refused_after([](JoinCode& c) { c.addresses[0].address = "myhost"; }));
  EXPECT_TRUE(refused_after([](JoinCode& c) { c.addresses[0].address = "fe80::1%eth0"; }));
  EXPECT_TRUE(refused_after([](JoinCode& c) { c.addresses[0].port = 0; }));
}

TEST(InviteSecret, each_is_new_and_only_its_hash_is_needed_to_know_it_again) {
  const auto one = make_invite_secret();
  const auto other = make_invite_secret();
  ASSERT_TRUE(one);
  ASSERT_TRUE(other);
  EXPECT_EQ(one->invite_id.size(), 16U);
  EXPECT_EQ(one->secret.size(), 32U);
  EXPECT_NE(one->invite_id, other->invite_id);
  EXPECT_NE(one->secret, other->secret);
  const std::string stored = secret_hash(one->secret);
  EXPECT_EQ(stored.find(one->secret), std::string::npos);
  EXPECT_TRUE(secret_matches(one->secret, stored));
  EXPECT_FALSE(secret_matches(other->secret, stored));
  EXPECT_FALSE(secret_matches("", stored));
  EXPECT_FALSE(secret_matches(one->secret, ""));
}

TEST(DownloadToken, follows_from_the_secret_and_is_of_no_other_use) {
  const std::string secret = make_invite_secret()->secret;
  const std::string token = download_token(secret_hash(secret));
  EXPECT_EQ(token.size(), 32U);
  EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(download_token(secret_hash(secret)), token);
  EXPECT_NE(download_token(secret_hash(make_invite_secret()->secret)), token);
  // Neither the secret, nor what is compared with the secret's hash.
  EXPECT_NE(token, secret);
  EXPECT_FALSE(secret_matches(token, secret_hash(secret)));
  EXPECT_EQ(secret_hash(secret).find(token), std::string::npos);
}

}  // namespace
}  // namespace salvage::identity
