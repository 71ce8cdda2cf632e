// Goal: keys keep their id wherever they go, and signatures hold for one key, one purpose and one
// message only.

#include "identity/node_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "identity/authority.h"
#include "identity/fingerprint.h"

namespace salvage::identity {
namespace {

NodeKey key() {
  auto made = make_node_key();
  EXPECT_TRUE(made) << made.error().message();
  return made ? *made : NodeKey{};
}

TEST(NodeKey, its_id_is_that_of_its_public_half_and_survives_storage) {
  const NodeKey made = key();
  EXPECT_TRUE(is_digest(made.id.value));
  const auto read = read_node_key(made.key_pem);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->id, made.id);
  EXPECT_EQ(read->public_key_pem, made.public_key_pem);
  const auto id = node_id_of(made.public_key_pem);
  ASSERT_TRUE(id);
  EXPECT_EQ(*id, made.id);
  EXPECT_NE(key().id, made.id);
}

// A key known from elsewhere: RFC 8410's example, whose SubjectPublicKeyInfo was hashed by hand
// with sha256sum.
TEST(NodeKey, the_id_of_a_known_key_never_changes) {
  const auto id = node_id_of(
      "-----BEGIN PUBLIC KEY-----\n"
      "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
      "-----END PUBLIC KEY-----\n");
  ASSERT_TRUE(id) << id.error().message();
  EXPECT_EQ(id->value, "a1e9156054e04fac899ae9f275132cdc07a5dbc4ea2c2ad3a1ffc6e0d253681f");
}

TEST(NodeKey, what_is_no_ed25519_key_is_corrupt_and_never_quoted) {
  const std::string good = key().key_pem;
  const std::string elliptic =
      "-----BEGIN PUBLIC KEY-----\n"
      "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n"
      "6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n"
      "-----END PUBLIC KEY-----\n";
  for (const std::string& text :
       {std::string(), std::string("secret words"), good.substr(0, good.size() / 2),
        std::string(kPemBytesMax + 1, 'x'), elliptic}) {
    const auto read = read_node_key(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message(), testing::Not(testing::HasSubstr("secret words")));
    const auto id = node_id_of(text);
    ASSERT_FALSE(id) << text;
    EXPECT_EQ(id.error().code(), ErrorCode::kCorrupt);
  }
}

// OpenSSL's habit is to ask for the password at the terminal.
TEST(NodeKey, a_key_that_wants_a_password_is_refused_without_asking) {
  const auto read = read_node_key(
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
      "MIGaMFYGCSqGSIb3DQEFDTBJMCgGCSqGSIb3DQEFDDAbBAimxcywJ/xVHwIBATAM\n"
      "BggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBAgQQ1S3ggMdpzWAdY3/N6LmzlwRAcCER\n"
      "dnpZyoF89QOqDP1IbKzsR8gDq3BocZ0xnBOXNU9wg6OmlQkWHYkT+tEH1BVkZKK8\n"
      "Jj3aiEZg+o253NZr3Q==\n"
      "-----END ENCRYPTED PRIVATE KEY-----\n");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
}

TEST(Signature, holds_for_its_key_its_purpose_and_its_message_only) {
  const NodeKey signer = key();
  const Message message = {.purpose = "beacon", .bytes = "here I am"};
  const auto signature = sign_message(signer.key_pem, message);
  ASSERT_TRUE(signature);
  EXPECT_EQ(signature->size(), 64U);
  EXPECT_TRUE(check_signature(signer.public_key_pem, message, *signature));

  const auto refused = [&](const std::string& public_key_pem, const Message& what,
                           const std::string& with) {
    const auto checked = check_signature(public_key_pem, what, with);
    return !checked && checked.error().code() == ErrorCode::kUnauthenticated;
  };
  EXPECT_TRUE(refused(key().public_key_pem, message, *signature));
  EXPECT_TRUE(refused(signer.public_key_pem, {"beacons", "here I am"}, *signature));
  EXPECT_TRUE(refused(signer.public_key_pem, {"beacon", "here I am!"}, *signature));
  EXPECT_TRUE(refused(signer.public_key_pem, message, ""));
  EXPECT_TRUE(refused(signer.public_key_pem, message, signature->substr(1)));
  std::string damaged = *signature;
  damaged[20] = static_cast<char>(damaged[20] ^ 1);
  EXPECT_TRUE(refused(signer.public_key_pem, message, damaged));
}

TEST(NodeIdentity, key_certificate_authority_and_id_have_to_fit) {
  const Authority authority = *make_authority();
  const NodeKey mine = key();
  NodeIdentity identity;
  identity.key_pem = mine.key_pem;
  identity.id = mine.id;
  EXPECT_TRUE(check_identity(identity));  // has not joined

  identity.authority_pem = authority.certificate_pem;
  EXPECT_FALSE(check_identity(identity));
  identity.certificate_pem = *issue_certificate(authority, mine.public_key_pem, NodeRole::kNode);
  EXPECT_TRUE(check_identity(identity));

  NodeIdentity other = identity;
  other.id = key().id;
  EXPECT_EQ(check_identity(other).error().code(), ErrorCode::kCorrupt);
  other = identity;
  other.certificate_pem = *issue_certificate(authority, key().public_key_pem, NodeRole::kNode);
  EXPECT_EQ(check_identity(other).error().code(), ErrorCode::kCorrupt);
  other = identity;
  other.authority_pem = make_authority()->certificate_pem;
  EXPECT_EQ(check_identity(other).error().code(), ErrorCode::kUnauthenticated);
}

}  // namespace
}  // namespace salvage::identity
