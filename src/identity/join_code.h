#pragma once

// The join code, one word that a person carries from the coordinator to the next machine:
//
//   slv1.<base32 of: cluster id (32), invite id (8), secret (16), address count (1),
//         for each address 4 or 6 (1), its bytes (4 or 16), port (2), and a checksum (4)>
//
// It holds all that the first contact needs: where to go, whose fingerprint has to be there, and
// the secret that is sent only after that was compared. The alphabet has no i, l, o, u; reading
// takes i and l for 1 and o for 0, ignores case, dashes and spaces. The checksum, the first bytes
// of the SHA-256 of all before it, exists so that a slip of the hand is called one instead of a
// wrong secret.
// Pure functions, any thread. `invalid_argument` says what is wrong with a code and where.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace salvage::identity {

inline constexpr std::size_t kJoinAddressesMax = 8;
// Eight IPv6 addresses make 346 characters; people add dashes and spaces.
inline constexpr std::size_t kJoinCodeTextMax = 1024;

struct JoinAddress {
  std::string address;  // numeric, without brackets or %interface
  std::uint16_t port = 0;
  friend bool operator==(const JoinAddress&, const JoinAddress&) = default;
};

struct JoinCode {
  std::string cluster_id;              // 64 hex digits
  std::string invite_id;               // 16 hex digits
  std::string secret;                  // 32 hex digits; never logged
  std::vector<JoinAddress> addresses;  // where the coordinator is, best first; may be empty
  friend bool operator==(const JoinCode&, const JoinCode&) = default;
};

// What is new in an invite, from the system's generator.
struct InviteSecret {
  std::string invite_id;
  std::string secret;
};
Result<InviteSecret> make_invite_secret();

Result<std::string> encode_join_code(const JoinCode& code);
Result<JoinCode> parse_join_code(std::string_view text);

// What the coordinator stores instead of the secret. Without salt and stretching on purpose: 128
// random bits can't be guessed.
std::string secret_hash(std::string_view secret);
// What opens the download of the program while the invite is open (download/download_line.h): 32
// hex digits that follow from the code, and from which neither the secret nor its hash can be told.
std::string download_token(std::string_view secret_hash);
// In constant time.
bool secret_matches(std::string_view secret, std::string_view stored_hash);

}  // namespace salvage::identity
