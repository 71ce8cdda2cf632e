// Goal: only what the cluster's own authority signed, for a key whose hash it names, in a role that
// exists, is a member's certificate, whatever the clock says. Method: certificates of every wrong
// kind, made with the same tools.

#include "identity/authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "identity/openssl.h"

namespace salvage::identity {
namespace {

using testing::HasSubstr;

struct Cluster {
  Authority authority = *make_authority();
  NodeKey key = *make_node_key();
  std::string certificate = *issue_certificate(authority, key.public_key_pem, NodeRole::kNode);

  ErrorCode refusal(const std::string& pem) const {
    const auto facts = check_certificate(pem, authority.certificate_pem);
    EXPECT_FALSE(facts);
    return facts ? ErrorCode::kInternal : facts.error().code();
  }

  // A certificate of key by the authority, with other names than it would write.
  std::string with_names(const CertificatePlan& plan) const {
    const KeyHandle subject = *private_key_from_pem(key.key_pem);
    const KeyHandle issuer = *private_key_from_pem(authority.key_pem);
    return *certificate_to_pem(**sign_certificate(plan, *subject, *issuer));
  }
};

TEST(Authority, a_member_is_recognised_with_its_role_and_key) {
  const Cluster cluster;
  for (const NodeRole role : {NodeRole::kNode, NodeRole::kCoordinator}) {
    const auto pem = issue_certificate(cluster.authority, cluster.key.public_key_pem, role);
    ASSERT_TRUE(pem) << pem.error().message();
    EXPECT_LT(pem->size(), kPemBytesMax / 2);
    const auto facts = check_certificate(*pem, cluster.authority.certificate_pem);
    ASSERT_TRUE(facts) << facts.error().message();
    EXPECT_EQ(facts->node, cluster.key.id);
    EXPECT_EQ(facts->role, role);
    EXPECT_EQ(facts->public_key_pem, cluster.key.public_key_pem);
  }
}

TEST(Authority, is_known_by_its_keys_hash_and_survives_storage) {
  const Cluster cluster;
  const auto id = cluster_id_of(cluster.authority.certificate_pem);
  ASSERT_TRUE(id) << id.error().message();
  EXPECT_EQ(*id, cluster.authority.cluster_id);
  EXPECT_EQ(*id, read_node_key(cluster.authority.key_pem)->id.value);
  const auto read = read_authority({cluster.authority.key_pem, cluster.authority.certificate_pem});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->cluster_id, *id);
  const Authority other = *make_authority();
  EXPECT_FALSE(read_authority({other.key_pem, cluster.authority.certificate_pem}));
}

TEST(Authority, another_ones_signature_is_refused) {
  const Cluster cluster;
  const Cluster other;
  EXPECT_EQ(cluster.refusal(other.certificate), ErrorCode::kUnauthenticated);
  // Even for the same key, and by an authority that copies all names.
  const std::string same_key =
      *issue_certificate(other.authority, cluster.key.public_key_pem, NodeRole::kNode);
  EXPECT_EQ(cluster.refusal(same_key), ErrorCode::kUnauthenticated);
}

TEST(Authority, a_member_can_not_sign_for_others) {
  const Cluster cluster;
  const NodeKey friend_key = *make_node_key();
  const KeyHandle subject = *private_key_from_pem(friend_key.key_pem);
  const KeyHandle issuer = *private_key_from_pem(cluster.key.key_pem);
  const CertificatePlan plan = {.common_name = friend_key.id.value,
                                .unit = kNodeUnit,
                                .issuer_name = cluster.key.id.value,
                                .issuer_unit = kAuthorityUnit,
                                .authority = true};
  const std::string forged = *certificate_to_pem(**sign_certificate(plan, *subject, *issuer));
  EXPECT_EQ(cluster.refusal(forged), ErrorCode::kUnauthenticated);
  // Nor is a member's certificate an authority.
  EXPECT_FALSE(cluster_id_of(cluster.certificate));
  EXPECT_FALSE(check_certificate(forged, cluster.certificate));
}

TEST(Authority, neither_the_authority_itself_nor_a_joiner_is_a_member) {
  const Cluster cluster;
  EXPECT_EQ(cluster.refusal(cluster.authority.certificate_pem), ErrorCode::kUnauthenticated);
  EXPECT_EQ(cluster.refusal(*make_joining_certificate(cluster.key.key_pem)),
            ErrorCode::kUnauthenticated);
  // A joiner is not its own authority.
  const std::string joining = *make_joining_certificate(cluster.key.key_pem);
  EXPECT_FALSE(check_certificate(joining, joining));
  EXPECT_FALSE(cluster_id_of(joining));
}

TEST(Authority, a_name_that_is_not_the_keys_hash_is_refused) {
  const Cluster cluster;
  CertificatePlan plan = {.common_name = cluster.authority.cluster_id,
                          .unit = kNodeUnit,
                          .issuer_name = cluster.authority.cluster_id,
                          .issuer_unit = kAuthorityUnit};
  EXPECT_EQ(cluster.refusal(cluster.with_names(plan)), ErrorCode::kUnauthenticated);
  plan.common_name = cluster.key.id.value;
  EXPECT_TRUE(check_certificate(cluster.with_names(plan), cluster.authority.certificate_pem));
  plan.unit = "observer";
  EXPECT_EQ(cluster.refusal(cluster.with_names(plan)), ErrorCode::kUnauthenticated);
}

TEST(Authority, a_certificate_that_ended_long_ago_or_begins_tomorrow_is_as_good_as_any) {
  const Cluster cluster;
  const KeyHandle issuer = *private_key_from_pem(cluster.authority.key_pem);
  for (const auto& [begin, end] : {std::pair("19800101000000Z", "19810101000000Z"),
                                   std::pair("99980101000000Z", "99990101000000Z")}) {
    const CertificateHandle certificate = *certificate_from_pem(cluster.certificate);
    ASSERT_EQ(ASN1_TIME_set_string(X509_getm_notBefore(certificate.get()), begin), 1);
    ASSERT_EQ(ASN1_TIME_set_string(X509_getm_notAfter(certificate.get()), end), 1);
    ASSERT_GT(X509_sign(certificate.get(), issuer.get(), nullptr), 0);
    EXPECT_TRUE(
        check_certificate(*certificate_to_pem(*certificate), cluster.authority.certificate_pem))
        << begin;
  }
}

TEST(Authority, every_flipped_bit_is_noticed) {
  const Cluster cluster;
  const std::string der = *certificate_to_der(cluster.certificate);
  // Every third byte: each costs several readings of a certificate.
  for (std::size_t at = 0; at < der.size(); at += 3) {
    std::string damaged = der;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    const auto pem = certificate_from_der(damaged);
    if (!pem) continue;
    const auto facts = check_certificate(*pem, cluster.authority.certificate_pem);
    EXPECT_FALSE(facts) << "byte " << at;
  }
}

TEST(Authority, the_short_form_comes_back_and_takes_nothing_else) {
  const Cluster cluster;
  const auto der = certificate_to_der(cluster.certificate);
  ASSERT_TRUE(der);
  EXPECT_LT(der->size(), 600U);
  const auto pem = certificate_from_der(*der);
  ASSERT_TRUE(pem);
  EXPECT_EQ(*pem, cluster.certificate);
  EXPECT_FALSE(certificate_from_der(*der + "x"));
  EXPECT_FALSE(certificate_from_der(""));
  EXPECT_FALSE(certificate_from_der(der->substr(0, der->size() - 1)));
  EXPECT_FALSE(certificate_from_der(std::string(kPemBytesMax + 1, '0')));
  EXPECT_FALSE(certificate_to_der("-----BEGIN CERTIFICATE-----\n"));
}

TEST(Authority, only_ed25519_keys_get_a_certificate) {
  const Cluster cluster;
  const KeyHandle elliptic(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  ASSERT_NE(elliptic, nullptr);
  const std::string public_pem = *public_key_to_pem(*elliptic);
  const auto issued = issue_certificate(cluster.authority, public_pem, NodeRole::kNode);
  ASSERT_FALSE(issued);
  EXPECT_EQ(issued.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(issued.error().message(), HasSubstr("Ed25519"));
  // Not even if the authority had signed it.
  const CertificatePlan plan = {.common_name = cluster.key.id.value,
                                .unit = kNodeUnit,
                                .issuer_name = cluster.authority.cluster_id,
                                .issuer_unit = kAuthorityUnit};
  const KeyHandle issuer = *private_key_from_pem(cluster.authority.key_pem);
  const auto certificate = sign_certificate(plan, *elliptic, *issuer);
  ASSERT_TRUE(certificate);
  EXPECT_EQ(cluster.refusal(*certificate_to_pem(**certificate)), ErrorCode::kUnauthenticated);
}

}  // namespace
}  // namespace salvage::identity
