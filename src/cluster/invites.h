#pragma once

// The open join codes. An invite is the right to become a member: so many uses, until a wall-clock
// time. Only the hash of its secret is kept. Pure: ids, hashes and the time come in; what changed
// goes back to be persisted. One thread owns it.
// A few wrong secrets burn an invite, so that a code can't be guessed at.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace salvage::cluster {

inline constexpr std::size_t kInvitesMax = 1000;
inline constexpr std::uint32_t kInviteUsesMax = 1000;
inline constexpr std::int64_t kInviteTtlMsMax = 30LL * 24 * 3600 * 1000;
inline constexpr std::uint32_t kWrongTriesMax = 5;
// So long somebody who comes too late is told so.
inline constexpr std::int64_t kRememberMs = 24LL * 3600 * 1000;
inline constexpr std::size_t kLabelBytesMax = 200;

struct Invite {
  std::string id;           // public part of the code
  std::string secret_hash;  // SHA-256 of the secret, hex
  std::string label;
  bool ephemeral = false;  // who joins with it is forgotten when it is gone for a while
  std::uint32_t uses_left = 1;
  std::uint32_t wrong_tries = 0;
  std::int64_t created_ms = 0;  // wall clock, since 1970
  std::int64_t expires_ms = 0;
  friend bool operator==(const Invite&, const Invite&) = default;
};

struct InviteWish {
  std::string id;
  std::string secret_hash;
  std::string label;
  std::uint32_t uses = 1;
  std::int64_t ttl_ms = 3600LL * 1000;
  bool ephemeral = false;
};

enum class RedeemOutcome { kOk, kUnknown, kExpired, kUsedUp, kWrongSecret };
std::string_view redeem_outcome_name(RedeemOutcome outcome);  // "ok", "unknown", "expired", ...

struct Redeemed {
  RedeemOutcome outcome = RedeemOutcome::kUnknown;
  // The invite as it is now, if it changed: persist it, before the answer goes out.
  std::optional<Invite> changed;
  bool ephemeral = false;
};

// Can somebody still join with it?
bool is_open(const Invite& invite, std::int64_t now_ms);

class Invites {
 public:
  explicit Invites(std::vector<Invite> persisted = {});

  // The new invite, to be persisted. Fails for counts, times and labels beyond the limits, and for
  // an id that is in use.
  Result<Invite> create(InviteWish wish, std::int64_t now_ms);
  // One try. Who doesn't know the secret learns nothing else. Takes the same time for every wrong
  // secret.
  Redeemed redeem(std::string_view id, std::string_view secret_hash, std::int64_t now_ms);
  // Gives a use back: the join failed after redeem() for a reason of our own.
  std::optional<Invite> give_back(std::string_view id);
  // Takes one back before its time; false if there is none.
  bool revoke(std::string_view id);
  // Forgets what expired kRememberMs ago; the ids, to be forgotten on disk too.
  std::vector<std::string> sweep(std::int64_t now_ms);

  std::vector<Invite> list() const;
  bool any_open(std::int64_t now_ms) const;

 private:
  std::map<std::string, Invite, std::less<>> invites_;
};

}  // namespace salvage::cluster
