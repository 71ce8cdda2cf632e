#include "identity/join_code.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/ip_address.h"
#include "base/random.h"
#include "base/sha256.h"
#include "identity/base32.h"

namespace salvage::identity {
namespace {

constexpr std::string_view kPrefix = "slv1.";
constexpr std::size_t kClusterBytes = 32;
constexpr std::size_t kInviteBytes = 8;
constexpr std::size_t kSecretBytes = 16;
constexpr std::size_t kTokenBytes = 16;
// A slip goes unnoticed once in four billion times; then the coordinator refuses the secret.
constexpr std::size_t kChecksumBytes = 4;

tl::unexpected<Error> bad(std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("this is no join code: {}", why));
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Appends `byte_count` bytes written as lower-case hex.
Result<void> append_hex(std::string& bytes, std::string_view hex, std::size_t byte_count) {
  bool right = hex.size() == 2 * byte_count;
  for (std::size_t i = 0; right && i < hex.size(); i += 2) {
    const int high = hex_value(hex[i]);
    const int low = hex_value(hex[i + 1]);
    right = high >= 0 && low >= 0;
    bytes.push_back(static_cast<char>(high << 4 | low));
  }
  if (right) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("a join code needs {} bytes as hex digits here", byte_count));
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

std::string checksum(std::string_view bytes) {
  Sha256 digest;
  digest.update(bytes);
  std::string first;
  // Digits of our own hash always read.
  (void)append_hex(first, digest.hex().substr(0, 2 * kChecksumBytes), kChecksumBytes).has_value();
  return first;
}

Result<void> append_address(std::string& bytes, const JoinAddress& join) {
  const auto address = parse_ip_address(join.address);
  if (!address || join.port == 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' port {} can't stand in a join code: it takes numeric addresses "
                            "that mean the same on every machine, and a port",
                            join.address, join.port));
  }
  bytes.push_back(address->v6 ? 6 : 4);
  for (std::size_t i = 0; i < byte_count(*address); ++i) {
    bytes.push_back(static_cast<char>(address->bytes[i]));
  }
  bytes.push_back(static_cast<char>(join.port >> 8));
  bytes.push_back(static_cast<char>(join.port & 0xFF));
  return {};
}

// Takes bytes from the front; too few are told by `short_of`.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  std::string_view take(std::size_t count) {
    short_of_ = short_of_ || count > left_.size();
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::uint8_t take_byte() {
    const std::string_view byte = take(1);
    return byte.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(byte.front());
  }
  bool at_end() const { return left_.empty(); }
  bool short_of() const { return short_of_; }

 private:
  std::string_view left_;
  bool short_of_ = false;
};

Result<JoinAddress> take_address(Reader& reader) {
  const std::uint8_t kind = reader.take_byte();
  if (kind != 4 && kind != 6) return bad("it has an address of an unknown kind");
  IpAddress address;
  address.v6 = kind == 6;
  const std::string_view bytes = reader.take(byte_count(address));
  std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
  JoinAddress join;
  join.address = to_string(address);
  const unsigned high = reader.take_byte();
  join.port = static_cast<std::uint16_t>(high << 8 | reader.take_byte());
  if (join.port == 0) return bad("it has an address without a port");
  return join;
}

Result<JoinCode> decode(std::string_view bytes) {
  Reader reader(bytes);
  JoinCode code;
  code.cluster_id = to_hex(reader.take(kClusterBytes));
  code.invite_id = to_hex(reader.take(kInviteBytes));
  code.secret = to_hex(reader.take(kSecretBytes));
  const std::size_t address_count = reader.take_byte();
  if (address_count > kJoinAddressesMax) return bad("it has too many addresses");
  for (std::size_t i = 0; i < address_count && !reader.short_of(); ++i) {
    ASSIGN_OR_RETURN(code.addresses.emplace_back(), take_address(reader));
  }
  if (reader.short_of() || !reader.at_end()) return bad("its length doesn't fit its contents");
  return code;
}

}  // namespace

Result<InviteSecret> make_invite_secret() {
  InviteSecret made;
  ASSIGN_OR_RETURN(made.invite_id, random_hex(kInviteBytes));
  ASSIGN_OR_RETURN(made.secret, random_hex(kSecretBytes));
  return made;
}

Result<std::string> encode_join_code(const JoinCode& code) {
  if (code.addresses.size() > kJoinAddressesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a join code has room for {} addresses, not for {}", kJoinAddressesMax,
                            code.addresses.size()));
  }
  std::string bytes;
  RETURN_IF_ERROR(append_hex(bytes, code.cluster_id, kClusterBytes));
  RETURN_IF_ERROR(append_hex(bytes, code.invite_id, kInviteBytes));
  RETURN_IF_ERROR(append_hex(bytes, code.secret, kSecretBytes));
  bytes.push_back(static_cast<char>(code.addresses.size()));
  for (const JoinAddress& address : code.addresses) {
    RETURN_IF_ERROR(append_address(bytes, address));
  }
  bytes += checksum(bytes);
  return std::string(kPrefix) + base32_encode(bytes);
}

Result<JoinCode> parse_join_code(std::string_view text) {
  if (text.size() > kJoinCodeTextMax) return bad("it is far too long");
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return bad("it is empty");
  text.remove_prefix(begin);
  if (!starts_with_ignoring_case(text, kPrefix)) {
    const bool newer = starts_with_ignoring_case(text, "slv");
    return bad(newer ? "it is of another version of salvage; this one reads slv1. codes"
                     : "it has to begin with slv1.");
  }
  auto bytes = base32_decode(text.substr(kPrefix.size()));
  if (!bytes) return bad(bytes.error().message() + "; copy it again");
  if (bytes->size() <= kChecksumBytes) return bad("it is cut off; copy all of it");
  const std::string_view content =
      std::string_view(*bytes).substr(0, bytes->size() - kChecksumBytes);
  if (checksum(content) != std::string_view(*bytes).substr(content.size())) {
    return bad("a character is wrong or missing (its checksum doesn't fit); copy it again");
  }
  return decode(content);
}

std::string secret_hash(std::string_view secret) {
  Sha256 digest;
  digest.update(secret);
  return digest.hex();
}

std::string download_token(std::string_view secret_hash) {
  Sha256 digest;
  digest.update("salvage download\n");
  digest.update(secret_hash);
  return digest.hex().substr(0, 2 * kTokenBytes);
}

bool secret_matches(std::string_view secret, std::string_view stored_hash) {
  return equal_constant_time(secret_hash(secret), stored_hash);
}

}  // namespace salvage::identity
