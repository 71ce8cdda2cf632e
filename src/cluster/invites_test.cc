// Goal: a code lets in exactly whom it should, as often and as long as it should.
// Method: time is a number here; every outcome is reached.

#include "cluster/invites.h"

#include <gtest/gtest.h>

namespace salvage::cluster {
namespace {

constexpr std::int64_t kNow = 1'800'000'000'000;
constexpr std::int64_t kHour = 3600LL * 1000;
const std::string kHash(64, '1');
const std::string kWrong(64, '2');

InviteWish wish(std::string id) {
  return {.id = std::move(id), .secret_hash = kHash};
}

TEST(Invites, one_use_and_one_hour_unless_told_otherwise) {
  Invites invites;
  const auto made = invites.create(wish("a"), kNow);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->expires_ms, kNow + kHour);
  EXPECT_TRUE(invites.any_open(kNow));
  const Redeemed redeemed = invites.redeem("a", kHash, kNow + kHour - 1);
  EXPECT_EQ(redeemed.outcome, RedeemOutcome::kOk);
  ASSERT_TRUE(redeemed.changed);
  EXPECT_EQ(redeemed.changed->uses_left, 0);
  EXPECT_EQ(invites.redeem("a", kHash, kNow).outcome, RedeemOutcome::kUsedUp);
  EXPECT_FALSE(invites.any_open(kNow));
}

TEST(Invites, several_uses_are_counted) {
  Invites invites;
  InviteWish three = wish("a");
  three.uses = 3;
  three.ephemeral = true;
  ASSERT_TRUE(invites.create(three, kNow));
  for (int i = 0; i < 3; ++i) {
    const Redeemed redeemed = invites.redeem("a", kHash, kNow);
    EXPECT_EQ(redeemed.outcome, RedeemOutcome::kOk);
    EXPECT_TRUE(redeemed.ephemeral);
  }
  EXPECT_EQ(invites.redeem("a", kHash, kNow).outcome, RedeemOutcome::kUsedUp);
  ASSERT_TRUE(invites.give_back("a"));
  EXPECT_EQ(invites.redeem("a", kHash, kNow).outcome, RedeemOutcome::kOk);
}

TEST(Invites, a_code_expires_and_says_so_for_a_day) {
  Invites invites;
  ASSERT_TRUE(invites.create(wish("a"), kNow));
  EXPECT_EQ(invites.redeem("a", kHash, kNow + kHour).outcome, RedeemOutcome::kExpired);
  EXPECT_FALSE(invites.any_open(kNow + kHour));
  EXPECT_TRUE(invites.sweep(kNow + kHour + kRememberMs - 1).empty());
  EXPECT_EQ(invites.sweep(kNow + kHour + kRememberMs), std::vector<std::string>{"a"});
  EXPECT_EQ(invites.redeem("a", kHash, kNow).outcome, RedeemOutcome::kUnknown);
}

TEST(Invites, who_does_not_know_the_secret_learns_nothing) {
  Invites invites;
  ASSERT_TRUE(invites.create(wish("a"), kNow));
  EXPECT_EQ(invites.redeem("b", kHash, kNow).outcome, RedeemOutcome::kUnknown);
  EXPECT_EQ(invites.redeem("a", kWrong, kNow + 2 * kHour).outcome, RedeemOutcome::kWrongSecret);
  EXPECT_EQ(invites.redeem("a", "", kNow).outcome, RedeemOutcome::kWrongSecret);
  EXPECT_EQ(invites.redeem("a", kHash, kNow).outcome, RedeemOutcome::kOk);
  EXPECT_EQ(invites.redeem("a", kWrong, kNow).outcome, RedeemOutcome::kWrongSecret);
}

TEST(Invites, a_few_wrong_tries_burn_a_code_over_restarts_too) {
  Invites invites;
  ASSERT_TRUE(invites.create(wish("a"), kNow));
  std::optional<Invite> persisted;
  for (std::uint32_t i = 0; i + 1 < kWrongTriesMax; ++i) {
    persisted = invites.redeem("a", kWrong, kNow).changed;
    ASSERT_TRUE(persisted);
  }
  Invites restarted({*persisted});
  EXPECT_TRUE(restarted.any_open(kNow));
  EXPECT_TRUE(restarted.redeem("a", kWrong, kNow).changed);
  EXPECT_FALSE(restarted.any_open(kNow));
  EXPECT_EQ(restarted.redeem("a", kHash, kNow).outcome, RedeemOutcome::kUsedUp);
  EXPECT_FALSE(restarted.redeem("a", kWrong, kNow).changed) << "nothing more to write";
}

TEST(Invites, wishes_beyond_the_limits_are_refused) {
  Invites invites;
  const auto refused = [&](auto change) {
    InviteWish bad = wish("a");
    change(bad);
    return !invites.create(bad, kNow).has_value();
  };
  EXPECT_TRUE(refused([](InviteWish& w) { w.uses = 0; }));
  EXPECT_TRUE(refused([](InviteWish& w) { w.uses = kInviteUsesMax + 1; }));
  EXPECT_TRUE(refused([](InviteWish& w) { w.ttl_ms = 0; }));
  EXPECT_TRUE(refused([](InviteWish& w) { w.ttl_ms = kInviteTtlMsMax + 1; }));
  EXPECT_TRUE(refused([](InviteWish& w) { w.label.assign(kLabelBytesMax + 1, 'x'); }));
  EXPECT_TRUE(refused([](InviteWish& w) { w.id.clear(); }));
  EXPECT_TRUE(refused([](InviteWish& w) { w.secret_hash.clear(); }));
  ASSERT_TRUE(invites.create(wish("a"), kNow));
  EXPECT_FALSE(invites.create(wish("a"), kNow)) << "ids are unique";
  for (std::size_t i = 1; i < kInvitesMax; ++i) {
    ASSERT_TRUE(invites.create(wish(std::to_string(i)), kNow));
  }
  EXPECT_FALSE(invites.create(wish("one more"), kNow));
  EXPECT_EQ(invites.list().size(), kInvitesMax);
}

TEST(Invites, a_code_can_be_taken_back) {
  Invites invites;
  ASSERT_TRUE(invites.create(wish("a"), kNow));
  EXPECT_TRUE(invites.revoke("a"));
  EXPECT_FALSE(invites.revoke("a"));
  EXPECT_FALSE(invites.give_back("a"));
  EXPECT_EQ(invites.redeem("a", kHash, kNow).outcome, RedeemOutcome::kUnknown);
}

}  // namespace
}  // namespace salvage::cluster
