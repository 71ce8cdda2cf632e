// Goal: a node's door lets in exactly who belongs to the cluster now. Method: views one after the
// other, no network.

#include "app/cluster_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::app {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const NodeId kAttic{"a"};
const NodeId kCellar{"c"};
const NodeId kStranger{"s"};

wire::ClusterView view_of(std::uint64_t version, const std::string& state) {
  wire::ClusterView view;
  view.version = version;
  view.cluster_name = "home";
  view.members.push_back({.node = "a",
                          .name = "attic",
                          .state = "online",
                          .coordinator = true,
                          .addresses = {{.endpoint = "tls:10.0.0.1:7420", .link = "wired"}}});
  view.members.push_back({.node = "c", .name = "cellar", .state = state});
  return view;
}

TEST(ViewKeeper, before_the_first_view_only_the_coordinator_is_let_in) {
  const ViewKeeper keeper(kAttic);
  EXPECT_TRUE(keeper.admits(kAttic));
  EXPECT_FALSE(keeper.admits(kCellar));
}

TEST(ViewKeeper, members_are_let_in_whether_they_are_there_or_not) {
  for (const char* state : {"online", "offline", "lost"}) {
    ViewKeeper keeper(kAttic);
    EXPECT_THAT(keeper.update(view_of(1, state)), IsEmpty());
    EXPECT_TRUE(keeper.admits(kCellar)) << state;
    EXPECT_FALSE(keeper.admits(kStranger)) << state;
  }
}

TEST(ViewKeeper, who_left_or_was_removed_is_shut_out) {
  for (const char* state : {"left", "removed"}) {
    ViewKeeper keeper(kAttic);
    (void)keeper.update(view_of(1, "online"));
    EXPECT_THAT(keeper.update(view_of(2, state)), ElementsAre(kCellar)) << state;
    EXPECT_FALSE(keeper.admits(kCellar)) << state;
  }
}

TEST(ViewKeeper, who_is_not_named_any_more_is_shut_out) {
  ViewKeeper keeper(kAttic);
  (void)keeper.update(view_of(1, "online"));
  wire::ClusterView next = view_of(2, "online");
  next.members.pop_back();
  EXPECT_THAT(keeper.update(next), ElementsAre(kCellar));
}

TEST(ViewKeeper, an_old_view_that_comes_late_lets_nobody_in_again) {
  ViewKeeper keeper(kAttic);
  (void)keeper.update(view_of(5, "removed"));
  EXPECT_THAT(keeper.update(view_of(4, "online")), IsEmpty());
  EXPECT_FALSE(keeper.admits(kCellar));
}

TEST(ViewKeeper, knows_names_and_where_the_coordinator_is) {
  ViewKeeper keeper(kAttic);
  (void)keeper.update(view_of(1, "lost"));
  EXPECT_THAT(keeper.coordinator_addresses(), ElementsAre("tls:10.0.0.1:7420"));
  EXPECT_EQ(keeper.name_of(kCellar), "cellar");
  EXPECT_EQ(keeper.name_of(kStranger), "");
  const auto info = keeper.info("id");
  ASSERT_EQ(info.nodes.size(), 2U);
  EXPECT_EQ(info.nodes[1].member.state, cluster::MemberState::kLost);
}

}  // namespace
}  // namespace salvage::app
