#include "cluster/invites.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"

namespace salvage::cluster {
namespace {

Result<void> check_wish(const InviteWish& wish) {
  if (wish.uses == 0 || wish.uses > kInviteUsesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} uses; from 1 to {} are possible", wish.uses, kInviteUsesMax));
  }
  if (wish.ttl_ms <= 0 || wish.ttl_ms > kInviteTtlMsMax) {
    return fail(ErrorCode::kInvalidArgument, "a code lasts from one second to 30 days");
  }
  if (wish.label.size() > kLabelBytesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the label has {} bytes; up to {} are possible", wish.label.size(),
                            kLabelBytesMax));
  }
  return {};
}

}  // namespace

bool is_open(const Invite& invite, std::int64_t now_ms) {
  return invite.uses_left > 0 && invite.wrong_tries < kWrongTriesMax && now_ms < invite.expires_ms;
}

std::string_view redeem_outcome_name(RedeemOutcome outcome) {
  switch (outcome) {
    case RedeemOutcome::kOk:
      return "ok";
    case RedeemOutcome::kUnknown:
      return "unknown";
    case RedeemOutcome::kExpired:
      return "expired";
    case RedeemOutcome::kUsedUp:
      return "used_up";
    case RedeemOutcome::kWrongSecret:
      return "wrong_secret";
  }
  return "unknown";
}

Invites::Invites(std::vector<Invite> persisted) {
  for (Invite& invite : persisted) {
    std::string id = invite.id;
    invites_.emplace(std::move(id), std::move(invite));
  }
}

Result<Invite> Invites::create(InviteWish wish, std::int64_t now_ms) {
  RETURN_IF_ERROR(check_wish(wish));
  if (invites_.size() >= kInvitesMax) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("{} codes are open, which is the most; they end by themselves",
                            invites_.size()));
  }
  if (wish.id.empty() || wish.secret_hash.empty() || invites_.contains(wish.id)) {
    return fail(ErrorCode::kInvalidArgument, "the invite's id is in use, or a part is missing");
  }
  Invite invite{.id = wish.id,
                .secret_hash = std::move(wish.secret_hash),
                .label = std::move(wish.label),
                .ephemeral = wish.ephemeral,
                .uses_left = wish.uses,
                .created_ms = now_ms,
                .expires_ms = now_ms + wish.ttl_ms};
  invites_.emplace(std::move(wish.id), invite);
  return invite;
}

Redeemed Invites::redeem(std::string_view id, std::string_view secret_hash, std::int64_t now_ms) {
  const auto found = invites_.find(id);
  if (found == invites_.end()) return {.outcome = RedeemOutcome::kUnknown};
  Invite& invite = found->second;
  // The secret first: whether a code is still good is nobody's business who doesn't have it.
  if (!equal_constant_time(invite.secret_hash, secret_hash)) {
    Redeemed wrong{.outcome = RedeemOutcome::kWrongSecret};
    if (invite.wrong_tries < kWrongTriesMax) {
      ++invite.wrong_tries;
      wrong.changed = invite;
    }
    return wrong;
  }
  if (now_ms >= invite.expires_ms) return {.outcome = RedeemOutcome::kExpired};
  if (!is_open(invite, now_ms)) return {.outcome = RedeemOutcome::kUsedUp};
  --invite.uses_left;
  return {.outcome = RedeemOutcome::kOk, .changed = invite, .ephemeral = invite.ephemeral};
}

std::optional<Invite> Invites::give_back(std::string_view id) {
  const auto found = invites_.find(id);
  if (found == invites_.end()) return std::nullopt;
  found->second.uses_left = std::min(found->second.uses_left + 1, kInviteUsesMax);
  return found->second;
}

bool Invites::revoke(std::string_view id) {
  const auto found = invites_.find(id);
  if (found == invites_.end()) return false;
  invites_.erase(found);
  return true;
}

std::vector<std::string> Invites::sweep(std::int64_t now_ms) {
  std::vector<std::string> gone;
  for (auto it = invites_.begin(); it != invites_.end();) {
    if (now_ms < it->second.expires_ms + kRememberMs) {
      ++it;
      continue;
    }
    gone.push_back(it->first);
    it = invites_.erase(it);
  }
  return gone;
}

std::vector<Invite> Invites::list() const {
  std::vector<Invite> all;
  for (const auto& [id, invite] : invites_) all.push_back(invite);
  return all;
}

bool Invites::any_open(std::int64_t now_ms) const {
  return std::any_of(invites_.begin(), invites_.end(),
                     [now_ms](const auto& entry) { return is_open(entry.second, now_ms); });
}

}  // namespace salvage::cluster
