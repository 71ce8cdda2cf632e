// Goal: who is in and who is out is always clear: links come and go, nodes fall silent, identities
// are copied, our own process is stopped, and nobody is thrown out who should not be, nor kept.
// Method: the coordinator's part is played here: links are numbers, pongs are given or not.

#include "cluster/membership.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/names.h"

namespace salvage::cluster {
namespace {

using ::testing::HasSubstr;

NodeId id_of(char letter) {
  return NodeId{std::string(64, letter)};
}

Newcomer newcomer(char letter, const std::string& name = "") {
  Newcomer node{.node = id_of(letter), .name = name.empty() ? std::string(1, letter) : name};
  node.facts.addresses = {{.endpoint = fmt::format("tls:198.18.0.{}:7420", letter - 'a' + 1)}};
  return node;
}

template <typename Action>
std::vector<Action> all(const MembershipActions& actions) {
  std::vector<Action> found;
  for (const MembershipAction& action : actions) {
    if (const auto* const one = std::get_if<Action>(&action)) found.push_back(*one);
  }
  return found;
}

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() : members_({.local = newcomer('a', "first"), .view_version = 10}) {}

  void join(char letter, const std::string& name = "") {
    const auto joined = members_.join_accepted(newcomer(letter, name));
    ASSERT_TRUE(joined) << joined.error().message();
  }
  MembershipActions link(char letter, std::uint64_t number) {
    return members_.link_up(LinkId{number}, newcomer(letter));
  }
  // Ticks a second apart, with the links that answer.
  MembershipActions tick(const std::vector<std::uint64_t>& answering = {}) {
    now_ += std::chrono::seconds(1);
    MembershipActions actions = members_.tick(now_);
    for (const SendPing& ping : all<SendPing>(actions)) {
      for (const std::uint64_t number : answering) {
        if (ping.link != LinkId{number}) continue;
        const MembershipActions more = members_.pong(ping.link, ping.nonce);
        actions.insert(actions.end(), more.begin(), more.end());
      }
    }
    return actions;
  }
  MemberState state(char letter) const { return members_.find(id_of(letter))->state; }

  Membership members_;
  TimePoint now_{};
};

TEST_F(MembershipTest, the_coordinator_s_own_node_is_always_there) {
  EXPECT_EQ(members_.online(), std::vector<NodeId>{id_of('a')});
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(tick().empty());
  EXPECT_EQ(state('a'), MemberState::kOnline);
  const auto clone = members_.link_up(LinkId{9}, newcomer('a'));
  ASSERT_EQ(clone.size(), 1);
  EXPECT_EQ(std::get<RefuseLink>(clone[0]).code, RefusalCode::kAlreadyConnected);
  EXPECT_FALSE(members_.leave(id_of('a')));
  EXPECT_FALSE(members_.remove(id_of('a')));
  EXPECT_FALSE(members_.join_accepted(newcomer('a')));
}

TEST_F(MembershipTest, who_joined_and_links_is_online) {
  join('b', "desktop");
  EXPECT_EQ(state('b'), MemberState::kOffline);
  const auto actions = link('b', 1);
  ASSERT_EQ(all<AcceptLink>(actions).size(), 1);
  EXPECT_EQ(all<AcceptLink>(actions)[0].name, "desktop");
  EXPECT_EQ(all<NodeOnline>(actions)[0].node, id_of('b'));
  EXPECT_EQ(all<PersistMember>(actions)[0].member.state, MemberState::kOnline);
  const auto views = all<PublishView>(actions);
  ASSERT_EQ(views.size(), 1);
  EXPECT_EQ(views[0].view.version, 12);
  EXPECT_EQ(views[0].view.members.size(), 2);
  EXPECT_EQ(members_.link_of(id_of('b')), LinkId{1});
}

TEST_F(MembershipTest, strangers_are_refused) {
  const auto actions = link('x', 1);
  ASSERT_EQ(actions.size(), 1);
  EXPECT_EQ(std::get<RefuseLink>(actions[0]).code, RefusalCode::kUnknown);
  EXPECT_FALSE(members_.is_member(id_of('x')));
  EXPECT_TRUE(members_.link_down(LinkId{1}, "closed").empty());
}

TEST_F(MembershipTest, a_silent_node_is_lost_at_the_sixth_tick) {
  join('b');
  (void)link('b', 1);
  (void)tick({1});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(all<SendPing>(tick()).size(), 1);
    EXPECT_EQ(state('b'), MemberState::kOnline);
  }
  const auto actions = tick();
  EXPECT_EQ(all<CloseLink>(actions).size(), 1);
  ASSERT_EQ(all<NodeLost>(actions).size(), 1);
  EXPECT_THAT(all<NodeLost>(actions)[0].reason, HasSubstr("5 pings"));
  EXPECT_FALSE(all<NodeLost>(actions)[0].for_good());
  EXPECT_EQ(all<PublishView>(actions).size(), 1);
  EXPECT_EQ(state('b'), MemberState::kLost);
  EXPECT_TRUE(members_.is_member(id_of('b')));
  EXPECT_TRUE(members_.link_down(LinkId{1}, "closed").empty()) << "it is known already";
}

TEST_F(MembershipTest, any_frame_counts_as_an_answer) {
  join('b');
  (void)link('b', 1);
  for (int i = 0; i < 30; ++i) {
    (void)tick();
    if (i % 4 == 3) members_.heard(LinkId{1});
  }
  EXPECT_EQ(state('b'), MemberState::kOnline);
}

TEST_F(MembershipTest, a_coordinator_that_was_stopped_blames_nobody) {
  join('b');
  join('c');
  (void)link('b', 1);
  (void)link('c', 2);
  for (int i = 0; i < 5; ++i) (void)tick();  // one more and both were lost
  now_ += std::chrono::minutes(10);
  auto actions = members_.tick(now_);
  EXPECT_TRUE(all<NodeLost>(actions).empty()) << "the answers may wait in our own queue";
  EXPECT_EQ(all<SendPing>(actions).size(), 2);
  members_.heard(LinkId{1});
  actions = tick({1});
  ASSERT_EQ(all<NodeLost>(actions).size(), 1);
  EXPECT_EQ(all<NodeLost>(actions)[0].node, id_of('c')) << "but who stays silent is found out";
}

TEST_F(MembershipTest, ticks_in_a_burst_count_once) {
  join('b');
  (void)link('b', 1);
  (void)tick();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(members_.tick(now_).empty());
  EXPECT_EQ(state('b'), MemberState::kOnline);
}

TEST_F(MembershipTest, a_link_that_breaks_loses_the_node_and_it_comes_back) {
  join('b');
  (void)link('b', 1);
  const auto lost = members_.link_down(LinkId{1}, "connection reset");
  EXPECT_EQ(all<NodeLost>(lost)[0].reason, "connection reset");
  EXPECT_EQ(state('b'), MemberState::kLost);
  EXPECT_EQ(all<NodeOnline>(link('b', 2)).size(), 1);
  EXPECT_EQ(state('b'), MemberState::kOnline);
}

TEST_F(MembershipTest, who_says_goodbye_is_offline_at_once_and_not_lost) {
  join('b');
  (void)link('b', 1);
  const auto actions = members_.goodbye(LinkId{1});
  EXPECT_EQ(state('b'), MemberState::kOffline);
  EXPECT_EQ(members_.find(id_of('b'))->reason, "was shut down");
  EXPECT_EQ(all<CloseLink>(actions).at(0).link, LinkId{1});
  EXPECT_EQ(all<PublishView>(actions).size(), 1) << "everybody hears of it";
  ASSERT_EQ(all<NodeLost>(actions).size(), 1) << "what ran there is gone";
  EXPECT_FALSE(all<NodeLost>(actions)[0].for_good()) << "it stays a member";
  EXPECT_TRUE(members_.is_member(id_of('b')));
  EXPECT_TRUE(members_.link_down(LinkId{1}, "closed").empty()) << "that was to be expected";
  EXPECT_TRUE(members_.goodbye(LinkId{1}).empty()) << "twice is once";
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(tick().empty());
  EXPECT_EQ(state('b'), MemberState::kOffline) << "silence does not make it lost afterwards";
  EXPECT_EQ(all<NodeOnline>(link('b', 2)).size(), 1);
  EXPECT_EQ(members_.find(id_of('b'))->reason, "");
}

TEST_F(MembershipTest, a_goodbye_that_never_arrives_ends_as_lost) {
  join('b');
  join('c');
  (void)link('b', 1);
  (void)link('c', 2);
  (void)members_.link_down(LinkId{1}, "connection reset");
  EXPECT_EQ(state('b'), MemberState::kLost) << "the process ended without a word";
  for (int i = 0; i < 7; ++i) (void)tick();
  EXPECT_EQ(state('c'), MemberState::kLost) << "its cable was out when it spoke";
}

TEST_F(MembershipTest, only_the_link_in_use_says_goodbye) {
  join('b');
  (void)link('b', 1);
  (void)link('b', 2);  // waits for the probe of the first
  EXPECT_TRUE(members_.goodbye(LinkId{2}).empty());
  EXPECT_TRUE(members_.goodbye(LinkId{7}).empty()) << "nobody's";
  EXPECT_EQ(state('b'), MemberState::kOnline);
  const auto actions = members_.goodbye(LinkId{1});
  EXPECT_EQ(all<NodeLost>(actions).size(), 1);
  ASSERT_EQ(all<AcceptLink>(actions).size(), 1) << "the next process of a restart";
  EXPECT_EQ(all<AcceptLink>(actions)[0].link, LinkId{2});
  EXPECT_EQ(state('b'), MemberState::kOnline);
}

TEST_F(MembershipTest, a_copied_identity_is_refused_while_the_first_answers) {
  join('b');
  (void)link('b', 1);
  const auto probe = link('b', 2);
  ASSERT_EQ(probe.size(), 1);
  const SendPing ping = std::get<SendPing>(probe[0]);
  EXPECT_EQ(ping.link, LinkId{1});
  EXPECT_TRUE(members_.pong(LinkId{1}, ping.nonce - 1).empty()) << "sent before the probe came";
  const auto refused = members_.pong(LinkId{1}, ping.nonce);
  ASSERT_EQ(refused.size(), 1);
  EXPECT_EQ(std::get<RefuseLink>(refused[0]).link, LinkId{2});
  EXPECT_EQ(std::get<RefuseLink>(refused[0]).code, RefusalCode::kAlreadyConnected);
  EXPECT_THAT(std::get<RefuseLink>(refused[0]).message, HasSubstr("join again with a new code"));
  EXPECT_EQ(members_.link_of(id_of('b')), LinkId{1});
  EXPECT_EQ(refusal_code_name(RefusalCode::kAlreadyConnected), "already_connected");
}

TEST_F(MembershipTest, a_new_link_replaces_a_dead_one) {
  join('b');
  (void)link('b', 1);
  (void)link('b', 2);
  const auto third = link('b', 3);
  EXPECT_EQ(std::get<RefuseLink>(third.at(0)).link, LinkId{3}) << "two are enough to settle";
  EXPECT_TRUE(all<AcceptLink>(tick()).empty());
  EXPECT_TRUE(all<AcceptLink>(tick()).empty());
  const auto actions = tick();
  EXPECT_EQ(all<CloseLink>(actions).at(0).link, LinkId{1});
  EXPECT_EQ(all<NodeLost>(actions).size(), 1) << "what ran there may be gone";
  EXPECT_EQ(all<AcceptLink>(actions).at(0).link, LinkId{2});
  EXPECT_EQ(all<NodeOnline>(actions).size(), 1);
  EXPECT_EQ(members_.link_of(id_of('b')), LinkId{2});
}

TEST_F(MembershipTest, a_new_link_takes_over_when_the_first_ends) {
  join('b');
  (void)link('b', 1);
  (void)link('b', 2);
  const auto actions = members_.link_down(LinkId{1}, "connection reset");
  EXPECT_EQ(all<NodeLost>(actions).size(), 1);
  EXPECT_EQ(all<AcceptLink>(actions).at(0).link, LinkId{2});
  EXPECT_EQ(state('b'), MemberState::kOnline);
}

TEST_F(MembershipTest, the_same_process_may_connect_anew_at_once) {
  join('b');
  Newcomer node = newcomer('b');
  node.facts.instance = "one";
  (void)members_.link_up(LinkId{1}, node);
  const auto again = members_.link_up(LinkId{2}, node);
  EXPECT_EQ(all<CloseLink>(again).at(0).link, LinkId{1});
  EXPECT_EQ(all<AcceptLink>(again).at(0).link, LinkId{2});
  node.facts.instance = "two";
  EXPECT_EQ(all<SendPing>(members_.link_up(LinkId{3}, node)).size(), 1);
}

TEST_F(MembershipTest, a_waiting_link_that_ends_changes_nothing) {
  join('b');
  (void)link('b', 1);
  (void)link('b', 2);
  EXPECT_TRUE(members_.link_down(LinkId{2}, "gave up").empty());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(all<AcceptLink>(tick({1})).empty());
  EXPECT_EQ(members_.link_of(id_of('b')), LinkId{1});
}

TEST_F(MembershipTest, removal_is_on_the_disk_first_and_for_ever) {
  join('b');
  (void)link('b', 1);
  (void)link('b', 2);
  const auto actions = members_.remove(id_of('b'));
  ASSERT_TRUE(actions);
  const auto* const first = std::get_if<ForgetMember>(&actions->front());
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(first->removed);
  EXPECT_EQ(all<CloseLink>(*actions).at(0).link, LinkId{1});
  EXPECT_EQ(all<RefuseLink>(*actions).at(0).link, LinkId{2});
  EXPECT_EQ(all<PublishView>(*actions).at(0).view.removed, std::vector<NodeId>{id_of('b')});
  EXPECT_TRUE(all<NodeLost>(*actions).at(0).for_good());
  EXPECT_EQ(std::get<RefuseLink>(link('b', 3).at(0)).code, RefusalCode::kRemoved);
  const auto again = members_.join_accepted(newcomer('b'));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::kPermissionDenied);
  EXPECT_TRUE(members_.remove(id_of('b'))->empty()) << "twice is once";
  EXPECT_FALSE(members_.remove(id_of('x')));
}

TEST_F(MembershipTest, who_left_may_join_again_and_keeps_its_name) {
  join('b', "desktop");
  (void)link('b', 1);
  const auto left = members_.leave(id_of('b'));
  ASSERT_TRUE(left);
  EXPECT_EQ(all<PersistMember>(*left).at(0).member.state, MemberState::kLeft);
  EXPECT_TRUE(all<NodeLost>(*left).at(0).for_good());
  EXPECT_FALSE(members_.is_member(id_of('b')));
  EXPECT_EQ(std::get<RefuseLink>(link('b', 2).at(0)).code, RefusalCode::kUnknown);
  join('b', "other");
  EXPECT_EQ(members_.find(id_of('b'))->name, "desktop");
  EXPECT_EQ(all<AcceptLink>(link('b', 3)).size(), 1);
}

TEST_F(MembershipTest, names_are_unique_and_safe) {
  join('b', "pi");
  join('c', "pi");
  join('d', "pi");
  EXPECT_EQ(members_.find(id_of('c'))->name, "pi-2");
  EXPECT_EQ(members_.find(id_of('d'))->name, "pi-3");
  ASSERT_TRUE(members_.rename(id_of('d'), "first"));
  EXPECT_EQ(members_.find(id_of('d'))->name, "first-2");
  ASSERT_TRUE(members_.rename(id_of('d'), "pi-3"));
  EXPECT_TRUE(members_.rename(id_of('d'), "pi-3")->empty()) << "its own name is free for it";
  EXPECT_FALSE(members_.rename(id_of('x'), "y"));
  EXPECT_EQ(clean_name("old imac\x1b[31m"), "old-imac--31m");
  EXPECT_EQ(clean_name("书房"), "书房");
  EXPECT_EQ(clean_name("a=b,c:d\xff"), "a-b-c-d-");
  EXPECT_EQ(clean_name("\xe2\x80\xaegnp"), "-gnp") << "no changes of direction";
  EXPECT_EQ(clean_name(""), "node");
  EXPECT_EQ(clean_name("  "), "node");
  EXPECT_EQ(clean_name(std::string(500, 'x')).size(), kNameBytesMax);
  join('e', std::string(500, 'y'));
  join('f', std::string(500, 'y'));
  EXPECT_LE(members_.find(id_of('f'))->name.size(), kNameBytesMax);
  EXPECT_NE(members_.find(id_of('f'))->name, members_.find(id_of('e'))->name);
}

TEST_F(MembershipTest, nodes_are_found_by_name_or_by_the_beginning_of_their_id) {
  join('b', "desktop");
  EXPECT_EQ(*members_.resolve("desktop"), id_of('b'));
  EXPECT_EQ(*members_.resolve("bbbb"), id_of('b'));
  EXPECT_EQ(*members_.resolve(std::string(64, 'b')), id_of('b'));
  const auto none = members_.resolve("laptop");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("there are: first, desktop"));
  EXPECT_FALSE(members_.resolve("bbb")) << "too short to be meant";
  EXPECT_FALSE(members_.resolve(""));
  Newcomer similar = newcomer('c');
  similar.node.value = "bbbb" + std::string(60, 'c');
  ASSERT_TRUE(members_.join_accepted(similar));
  EXPECT_THAT(members_.resolve("bbbb").error().message(), HasSubstr("2 nodes"));
}

TEST_F(MembershipTest, an_ephemeral_node_is_forgotten_when_it_is_gone_for_long) {
  Newcomer node = newcomer('b');
  node.ephemeral = true;
  ASSERT_TRUE(members_.join_accepted(node));
  (void)link('b', 1);
  for (std::uint32_t i = 0; i < kEphemeralTicksMax + 10; ++i) (void)tick({1});
  EXPECT_EQ(state('b'), MemberState::kOnline);
  (void)members_.link_down(LinkId{1}, "gone");
  for (std::uint32_t i = 0; i < kEphemeralTicksMax; ++i) EXPECT_TRUE(tick().empty());
  const auto actions = tick();
  ASSERT_EQ(all<ForgetMember>(actions).size(), 1);
  EXPECT_FALSE(all<ForgetMember>(actions)[0].removed);
  EXPECT_EQ(members_.find(id_of('b')), nullptr);
  EXPECT_EQ(std::get<RefuseLink>(link('b', 2).at(0)).code, RefusalCode::kUnknown);
}

TEST_F(MembershipTest, only_what_concerns_others_is_published) {
  join('b');
  (void)link('b', 1);
  NodeFacts facts = newcomer('b').facts;
  facts.memory_free_bytes = 5;
  facts.disk_free_bytes = 7;
  EXPECT_TRUE(members_.facts_changed(LinkId{1}, facts).empty());
  EXPECT_EQ(members_.find(id_of('b'))->facts.memory_free_bytes, 5);
  facts.addresses = {{.endpoint = "tls:198.18.0.99:7420"}};
  EXPECT_EQ(all<PublishView>(members_.facts_changed(LinkId{1}, facts)).size(), 1);
  facts.addresses.resize(1000);
  (void)members_.facts_changed(LinkId{1}, facts);
  EXPECT_EQ(members_.find(id_of('b'))->facts.addresses.size(), kAddressesMax);
  EXPECT_TRUE(members_.facts_changed(LinkId{7}, facts).empty());
  facts.addresses.resize(1);
  EXPECT_EQ(all<PublishView>(members_.local_facts_changed(facts)).size(), 1);
}

TEST_F(MembershipTest, the_number_of_members_is_bounded) {
  for (std::size_t i = 1; i < kMembersMax; ++i) {
    Newcomer node = newcomer('b');
    node.node.value = fmt::format("{:064}", i);
    ASSERT_TRUE(members_.join_accepted(node));
  }
  const auto one_more = members_.join_accepted(newcomer('z'));
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code(), ErrorCode::kResourceExhausted);
}

TEST(MembershipStart, the_coordinator_s_own_node_may_link_like_the_others) {
  Membership members(
      {.self = id_of('b'),
       .view_version = 1,
       .members = {{.node = id_of('b'), .name = "zz"}, {.node = id_of('c'), .name = "aa"}}});
  EXPECT_TRUE(members.online().empty());
  EXPECT_EQ(all<AcceptLink>(members.link_up(LinkId{1}, newcomer('c'))).size(), 1);
  EXPECT_EQ(all<AcceptLink>(members.link_up(LinkId{2}, newcomer('b'))).size(), 1);
  EXPECT_EQ(members.online(), (std::vector<NodeId>{id_of('b'), id_of('c')}));
  EXPECT_FALSE(members.remove(id_of('b')));
  EXPECT_FALSE(members.leave(id_of('b')));
  EXPECT_TRUE(members.local_facts_changed({.version = "9"}).empty());
}

TEST(MembershipStart, what_was_persisted_is_there_and_offline) {
  Member left{.node = id_of('c'), .name = "c", .state = MemberState::kLeft};
  Member there{.node = id_of('b'), .name = "b", .state = MemberState::kOnline};
  Member removed{.node = id_of('d'), .name = "d"};
  Membership members({.local = newcomer('a'),
                      .view_version = 500,
                      .members = {there, left, removed},
                      .removed = {id_of('d')}});
  EXPECT_EQ(members.find(id_of('b'))->state, MemberState::kOffline);
  EXPECT_EQ(members.find(id_of('c'))->state, MemberState::kLeft);
  EXPECT_EQ(members.find(id_of('d')), nullptr);
  EXPECT_TRUE(members.is_removed(id_of('d')));
  const auto actions = members.link_up(LinkId{1}, newcomer('b'));
  EXPECT_GT(all<PublishView>(actions).at(0).view.version, 500);
}

}  // namespace
}  // namespace salvage::cluster
