// Goal: a beacon says the same on both sides, is believed only from the coordinator of one's own
// cluster, and no datagram of anybody can do more than be refused. Method: real keys and
// certificates, every byte changed once, every length tried.

#include "discovery/beacon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "identity/authority.h"
#include "identity/node_identity.h"

namespace salvage::discovery {
namespace {

using identity::Authority;
using identity::NodeKey;
using identity::NodeRole;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

IpAddress ip(std::string_view text) {
  return *parse_ip_address(text);
}

// One cluster with a coordinator; keys are made once.
struct Cluster {
  Authority authority = *identity::make_authority();
  NodeKey key = *identity::make_node_key();

  Beacon beacon(NodeRole role = NodeRole::kCoordinator) const {
    Beacon made;
    made.cluster_id = authority.cluster_id;
    made.coordinator = key.id;
    made.boot = 0x0123456789abcdef;
    made.sequence = 7;
    made.addresses = {{ip("198.18.0.10"), 7420}, {ip("fd00:51::10"), 7420}};
    const auto pem = identity::issue_certificate(authority, key.public_key_pem, role);
    made.certificate = *identity::certificate_to_der(*pem);
    EXPECT_TRUE(sign_beacon(made, key.key_pem));
    return made;
  }
};

const Cluster& cluster() {
  static const Cluster made;
  return made;
}

ErrorCode refusal(const Beacon& beacon, const Cluster& trusted = cluster()) {
  const auto checked = check_beacon(beacon, trusted.authority.certificate_pem);
  return checked ? ErrorCode::kInternal : checked.error().code();
}

TEST(Beacon, comes_back_as_it_was_sent_and_is_believed) {
  const Beacon sent = cluster().beacon();
  const std::string datagram = *encode_beacon(sent);
  EXPECT_LE(datagram.size(), 700U);
  EXPECT_EQ(*datagram_kind(bytes_of(datagram)), DatagramKind::kBeacon);
  const auto got = parse_beacon(bytes_of(datagram));
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(*got, sent);
  EXPECT_TRUE(check_beacon(*got, cluster().authority.certificate_pem));
}

TEST(Beacon, fits_a_datagram_with_as_many_addresses_as_are_allowed) {
  Beacon beacon = cluster().beacon();
  beacon.addresses.assign(kAddressesMax, {ip("fd00::1"), 7420});
  ASSERT_TRUE(sign_beacon(beacon, cluster().key.key_pem));
  const std::string datagram = *encode_beacon(beacon);
  EXPECT_LE(datagram.size(), kDatagramBytesMax);
  EXPECT_TRUE(parse_beacon(bytes_of(datagram)));
  beacon.addresses.push_back({ip("fd00::1"), 7420});
  EXPECT_FALSE(sign_beacon(beacon, cluster().key.key_pem));
  EXPECT_LE(91 + 19 * kAddressesMax + kCertificateBytesMax + kSignatureBytes, kDatagramBytesMax);
}

TEST(Beacon, every_changed_bit_is_refused) {
  const std::string datagram = *encode_beacon(cluster().beacon());
  for (std::size_t i = 0; i < datagram.size(); ++i) {
    if (i == 6 || i == 7) continue;  // reserved
    std::string changed = datagram;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    const auto parsed = parse_beacon(bytes_of(changed));
    EXPECT_FALSE(parsed && check_beacon(*parsed, cluster().authority.certificate_pem)) << i;
  }
}

TEST(Beacon, every_other_length_is_refused) {
  const std::string datagram = *encode_beacon(cluster().beacon());
  for (std::size_t size = 0; size < datagram.size(); ++size) {
    EXPECT_FALSE(parse_beacon(bytes_of(datagram).first(size))) << size;
  }
  EXPECT_FALSE(parse_beacon(bytes_of(datagram + "x")));
  EXPECT_FALSE(parse_beacon(bytes_of(datagram + std::string(kDatagramBytesMax, 'x'))));
}

TEST(Beacon, noise_is_refused) {
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string noise(random.below(kDatagramBytesMax + 100), '\0');
    for (char& one : noise) one = static_cast<char>(random());
    if (i % 2 == 0 && noise.size() > 8) noise.replace(0, 8, std::string("SLVB\1\1\0\0", 8));
    const auto beacon = parse_beacon(bytes_of(noise));
    EXPECT_FALSE(beacon && check_beacon(*beacon, cluster().authority.certificate_pem));
  }
}

TEST(Beacon, one_of_another_cluster_is_not_believed) {
  const Cluster other;
  EXPECT_EQ(refusal(other.beacon()), ErrorCode::kUnauthenticated);
  // Not either if it claims to be ours, with a certificate that our authority never saw.
  Beacon forged = other.beacon();
  forged.cluster_id = cluster().authority.cluster_id;
  ASSERT_TRUE(sign_beacon(forged, other.key.key_pem));
  EXPECT_EQ(refusal(forged), ErrorCode::kUnauthenticated);
}

TEST(Beacon, a_member_that_is_not_the_coordinator_is_not_believed) {
  EXPECT_EQ(refusal(cluster().beacon(NodeRole::kNode)), ErrorCode::kUnauthenticated);
}

TEST(Beacon, the_coordinator_s_certificate_in_another_s_hand_is_worth_nothing) {
  const Cluster thief;
  Beacon beacon = cluster().beacon();
  beacon.addresses = {{ip("198.18.0.66"), 7420}};
  ASSERT_TRUE(sign_beacon(beacon, thief.key.key_pem));
  EXPECT_EQ(refusal(beacon), ErrorCode::kUnauthenticated);
  beacon.coordinator = thief.key.id;
  ASSERT_TRUE(sign_beacon(beacon, thief.key.key_pem));
  EXPECT_EQ(refusal(beacon), ErrorCode::kUnauthenticated);
}

TEST(Beacon, one_of_a_later_version_is_named_as_such) {
  std::string datagram = *encode_beacon(cluster().beacon());
  datagram[4] = 2;
  const auto parsed = parse_beacon(bytes_of(datagram));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(parsed.error().message(), testing::HasSubstr("version 2"));
}

TEST(Beacon, without_a_signature_none_is_sent) {
  Beacon beacon = cluster().beacon();
  beacon.signature.clear();
  EXPECT_FALSE(encode_beacon(beacon));
}

TEST(Query, names_the_cluster_and_nothing_else_is_one) {
  const std::string& id = cluster().authority.cluster_id;
  const std::string query = encode_query(id);
  EXPECT_EQ(query.size(), 40U);
  EXPECT_EQ(*datagram_kind(bytes_of(query)), DatagramKind::kQuery);
  EXPECT_EQ(*parse_query(bytes_of(query)), id);
  EXPECT_FALSE(parse_beacon(bytes_of(query)));
  EXPECT_FALSE(parse_query(bytes_of(*encode_beacon(cluster().beacon()))));
  EXPECT_FALSE(parse_query(bytes_of(query + "x")));
  EXPECT_FALSE(parse_query(bytes_of(query).first(39)));
}

}  // namespace
}  // namespace salvage::discovery
