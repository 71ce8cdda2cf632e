#pragma once

// The datagrams by which machines of a cluster find each other on a LAN (docs/cluster.md): the
// coordinator's beacon says where it is now, a query asks for one. A beacon is signed with the
// coordinator's node key and carries its certificate, so that every member can check it with the
// authority that it trusts already. It only offers addresses to try: who is there is decided by the
// handshake, so a replayed old beacon costs a failed try and nothing else. A machine that has not
// joined yet knows no authority; it takes beacons of its cluster id unchecked, for the same reason.
//
//   beacon := "SLVB" u8 version=1 u8 kind=1 u16 0
//             cluster id (32) node id (32) u64 boot u64 sequence
//             u8 address count, u16 certificate bytes,
//             for each address: u8 family (4, 6), 4 or 16 bytes, u16 port
//             certificate (DER), signature (64) of all before it
//   query  := "SLVB" u8 version=1 u8 kind=2 u16 0, cluster id (32)
//
// Numbers are little endian. A datagram has at most kDatagramBytesMax, so that it is never
// fragmented; reserved bytes are written as 0 and ignored; bytes left over at the end are refused.
// Pure functions, any thread. `corrupt` = no such datagram; `unsupported` = another version.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/ip_address.h"
#include "base/result.h"

namespace salvage::discovery {

inline constexpr std::size_t kDatagramBytesMax = 1200;    // an IPv6 packet of 1,280 fits any link
inline constexpr std::size_t kAddressesMax = 16;          // 304 bytes if all are IPv6
inline constexpr std::size_t kCertificateBytesMax = 640;  // ours have about 400
inline constexpr std::size_t kSignatureBytes = 64;        // Ed25519

struct BeaconAddress {
  IpAddress address;
  std::uint16_t port = 0;
  friend bool operator==(const BeaconAddress&, const BeaconAddress&) = default;
};

struct Beacon {
  std::string cluster_id;  // 64 hex digits
  NodeId coordinator;
  std::uint64_t boot = 0;                // by chance, one a start of the coordinator
  std::uint64_t sequence = 0;            // grows within a boot
  std::vector<BeaconAddress> addresses;  // best first
  std::string certificate;               // DER, of the coordinator
  std::string signature;
  friend bool operator==(const Beacon&, const Beacon&) = default;
};

enum class DatagramKind : std::uint8_t { kBeacon = 1, kQuery = 2 };

// What kind a datagram claims to be; `unsupported` for another version of this format.
Result<DatagramKind> datagram_kind(std::span<const std::byte> datagram);

Result<Beacon> parse_beacon(std::span<const std::byte> datagram);

// The whole datagram as it stands in the fields, signature included. `invalid_argument` if a field
// is over its limit.
Result<std::string> encode_beacon(const Beacon& beacon);

// Signs the fields; `beacon` gets its signature.
Result<void> sign_beacon(Beacon& beacon, std::string_view key_pem);

// Is it from the coordinator of the cluster of this authority (PEM)?
Result<void> check_beacon(const Beacon& beacon, std::string_view authority_pem);

std::string encode_query(const std::string& cluster_id);
// The cluster id that is asked for.
Result<std::string> parse_query(std::span<const std::byte> datagram);

}  // namespace salvage::discovery
