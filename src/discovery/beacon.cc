#include "discovery/beacon.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "identity/authority.h"
#include "identity/node_identity.h"
#include "wire/bytes.h"

namespace salvage::discovery {
namespace {

constexpr std::string_view kPurpose = "beacon";
constexpr std::array<std::uint8_t, 4> kMagic{'S', 'L', 'V', 'B'};
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kIdBytes = 32;
using IdBytes = std::array<std::uint8_t, kIdBytes>;

tl::unexpected<Error> corrupt(std::string_view what) {
  return fail(ErrorCode::kCorrupt, fmt::format("not a beacon: {}", what));
}

std::string hex(const IdBytes& bytes) {
  std::string digits;
  for (const std::uint8_t byte : bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

int digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

Result<IdBytes> id_bytes(std::string_view digits) {
  IdBytes bytes{};
  if (digits.size() != 2 * kIdBytes) {
    return fail(ErrorCode::kInvalidArgument, "an id has 64 hex digits");
  }
  for (std::size_t i = 0; i < kIdBytes; ++i) {
    const int high = digit_value(digits[2 * i]);
    const int low = digit_value(digits[2 * i + 1]);
    if (high < 0 || low < 0) return fail(ErrorCode::kInvalidArgument, "an id has 64 hex digits");
    bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return bytes;
}

// Appends to a datagram.
class Out {
 public:
  template <typename Number>
  void number(Number value) {
    std::array<std::byte, sizeof(Number)> bytes{};
    wire::store(bytes.data(), value);
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void bytes(std::span<const std::uint8_t> list) {
    text_.append(reinterpret_cast<const char*>(list.data()), list.size());
  }
  void text(std::string_view more) { text_.append(more); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void write_head(Out& out, DatagramKind kind) {
  out.bytes(kMagic);
  out.number(kVersion);
  out.number(static_cast<std::uint8_t>(kind));
  out.number(std::uint16_t{0});
}

// `into` has the size that is wanted.
bool read_bytes(wire::Reader& in, std::span<std::uint8_t> into) {
  std::vector<std::uint8_t> bytes;
  if (!in.list(bytes, into.size())) return false;
  std::copy(bytes.begin(), bytes.end(), into.begin());
  return true;
}

bool read_text(wire::Reader& in, std::size_t size, std::string& into) {
  std::vector<char> bytes;
  if (!in.list(bytes, size)) return false;
  into.assign(bytes.begin(), bytes.end());
  return true;
}

bool read_id(wire::Reader& in, std::string& digits) {
  IdBytes bytes{};
  if (!read_bytes(in, bytes)) return false;
  digits = hex(bytes);
  return true;
}

// Past magic, version and kind, which datagram_kind() has looked at.
Result<wire::Reader> open_datagram(std::span<const std::byte> datagram, DatagramKind wanted) {
  ASSIGN_OR_RETURN(const DatagramKind kind, datagram_kind(datagram));
  if (kind != wanted) return corrupt("it is of another kind");
  return wire::Reader(datagram.subspan(kMagic.size() + 4));
}

Result<BeaconAddress> read_address(wire::Reader& in) {
  BeaconAddress address;
  std::uint8_t family = 0;
  if (!in.number(family)) return corrupt("it ends within an address");
  if (family != 4 && family != 6) return corrupt("an address of an unknown family");
  address.address.v6 = family == 6;
  const auto bytes = std::span(address.address.bytes).first(byte_count(address.address));
  if (!read_bytes(in, bytes) || !in.number(address.port))
    return corrupt("it ends within an address");
  if (address.port == 0) return corrupt("an address with port 0");
  return address;
}

Result<std::string> encode_signed_part(const Beacon& beacon) {
  if (beacon.addresses.size() > kAddressesMax || beacon.certificate.size() > kCertificateBytesMax) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a beacon holds {} addresses and {} bytes of certificate, not {} and {}",
                    kAddressesMax, kCertificateBytesMax, beacon.addresses.size(),
                    beacon.certificate.size()));
  }
  ASSIGN_OR_RETURN(const IdBytes cluster, id_bytes(beacon.cluster_id));
  ASSIGN_OR_RETURN(const IdBytes coordinator, id_bytes(beacon.coordinator.value));
  Out out;
  write_head(out, DatagramKind::kBeacon);
  out.bytes(cluster);
  out.bytes(coordinator);
  out.number(beacon.boot);
  out.number(beacon.sequence);
  out.number(static_cast<std::uint8_t>(beacon.addresses.size()));
  out.number(static_cast<std::uint16_t>(beacon.certificate.size()));
  for (const BeaconAddress& address : beacon.addresses) {
    out.number(static_cast<std::uint8_t>(address.address.v6 ? 6 : 4));
    out.bytes(std::span(address.address.bytes).first(byte_count(address.address)));
    out.number(address.port);
  }
  out.text(beacon.certificate);
  return out.take();
}

}  // namespace

Result<DatagramKind> datagram_kind(std::span<const std::byte> datagram) {
  if (datagram.size() > kDatagramBytesMax) return corrupt("it is too long");
  wire::Reader in(datagram);
  std::array<std::uint8_t, kMagic.size()> magic{};
  std::uint8_t version = 0;
  std::uint8_t kind = 0;
  std::uint16_t reserved = 0;
  if (!read_bytes(in, magic) || !in.number(version) || !in.number(kind) || !in.number(reserved) ||
      magic != kMagic) {
    return corrupt("it does not begin like one");
  }
  if (version != kVersion) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("a beacon of version {}; this program reads {}", version, kVersion));
  }
  if (kind != static_cast<std::uint8_t>(DatagramKind::kBeacon) &&
      kind != static_cast<std::uint8_t>(DatagramKind::kQuery)) {
    return corrupt("its kind is unknown");
  }
  return static_cast<DatagramKind>(kind);
}

Result<Beacon> parse_beacon(std::span<const std::byte> datagram) {
  ASSIGN_OR_RETURN(wire::Reader in, open_datagram(datagram, DatagramKind::kBeacon));
  Beacon beacon;
  std::uint8_t address_count = 0;
  std::uint16_t certificate_bytes = 0;
  if (!read_id(in, beacon.cluster_id) || !read_id(in, beacon.coordinator.value) ||
      !in.number(beacon.boot) || !in.number(beacon.sequence) || !in.number(address_count) ||
      !in.number(certificate_bytes)) {
    return corrupt("it ends too early");
  }
  if (address_count > kAddressesMax) return corrupt("too many addresses");
  if (certificate_bytes > kCertificateBytesMax) return corrupt("too long a certificate");
  for (std::size_t i = 0; i < address_count; ++i) {
    ASSIGN_OR_RETURN(beacon.addresses.emplace_back(), read_address(in));
  }
  if (!read_text(in, certificate_bytes, beacon.certificate) ||
      !read_text(in, kSignatureBytes, beacon.signature)) {
    return corrupt("it ends too early");
  }
  if (!in.done()) return corrupt("bytes are left over");
  return beacon;
}

Result<std::string> encode_beacon(const Beacon& beacon) {
  if (beacon.signature.size() != kSignatureBytes) {
    return fail(ErrorCode::kInvalidArgument, "the beacon is not signed");
  }
  ASSIGN_OR_RETURN(const std::string bytes, encode_signed_part(beacon));
  return bytes + beacon.signature;
}

Result<void> sign_beacon(Beacon& beacon, std::string_view key_pem) {
  ASSIGN_OR_RETURN(const std::string bytes, encode_signed_part(beacon));
  ASSIGN_OR_RETURN(beacon.signature, identity::sign_message(key_pem, {kPurpose, bytes}));
  return {};
}

Result<void> check_beacon(const Beacon& beacon, std::string_view authority_pem) {
  ASSIGN_OR_RETURN(const std::string cluster, identity::cluster_id_of(authority_pem));
  if (beacon.cluster_id != cluster) {
    return fail(ErrorCode::kUnauthenticated, "a beacon of another cluster");
  }
  ASSIGN_OR_RETURN(const std::string certificate,
                   identity::certificate_from_der(beacon.certificate));
  ASSIGN_OR_RETURN(const identity::CertificateFacts facts,
                   identity::check_certificate(certificate, authority_pem));
  if (facts.role != identity::NodeRole::kCoordinator || facts.node != beacon.coordinator) {
    return fail(ErrorCode::kUnauthenticated, "a beacon that the coordinator has not sent");
  }
  ASSIGN_OR_RETURN(const std::string bytes, encode_signed_part(beacon));
  return identity::check_signature(facts.public_key_pem, {kPurpose, bytes}, beacon.signature);
}

std::string encode_query(const std::string& cluster_id) {
  const auto cluster = id_bytes(cluster_id);
  Out out;
  write_head(out, DatagramKind::kQuery);
  out.bytes(cluster ? *cluster : IdBytes{});  // what is no id is asked for by nobody
  return out.take();
}

Result<std::string> parse_query(std::span<const std::byte> datagram) {
  ASSIGN_OR_RETURN(wire::Reader in, open_datagram(datagram, DatagramKind::kQuery));
  std::string cluster;
  if (!read_id(in, cluster) || !in.done()) return corrupt("a query has another length");
  return cluster;
}

}  // namespace salvage::discovery
