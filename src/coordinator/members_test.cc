// Goal: machines become members with good codes only, everybody hears what becomes of them, and a
// link says only what it may. Method: a coordinator with a real state on disk, machines on the
// memory transport.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/test_cluster.h"

namespace salvage::coordinator {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class Members : public testing::Test {
 protected:
  std::string code(const InviteOptions& options = {}) {
    const auto invite = cluster_.coordinator().invite(options);
    EXPECT_TRUE(invite) << invite.error().message();
    return invite ? invite->code : "";
  }
  std::string state(const std::string& name) {
    for (const NodeInfo& node : cluster_.coordinator().cluster().nodes) {
      if (node.member.name == name) {
        return std::string(cluster::member_state_name(node.member.state));
      }
    }
    return "unknown";
  }

  TestCluster cluster_;
  TestNode self_{cluster_, cluster_.own_key(), "attic"};
};

TEST_F(Members, a_code_makes_one_machine_a_member_and_no_second_one) {
  const std::string once = code();
  TestNode pi(cluster_, "pi");
  const wire::JoinReply reply = pi.join(once);
  ASSERT_TRUE(reply.accepted) << reply.error;
  EXPECT_EQ(reply.name, "pi");
  EXPECT_EQ(reply.coordinator, cluster_.own_key().id.value);
  const auto certificate = identity::check_certificate(reply.certificate, reply.authority);
  ASSERT_TRUE(certificate) << certificate.error().message();
  EXPECT_EQ(certificate->node, pi.id());
  EXPECT_TRUE(cluster_.coordinator().admits(pi.id()));
  EXPECT_EQ(cluster_.event("node_joined").node, "pi");

  TestNode other(cluster_, "other");
  const wire::JoinReply refusal = other.join(once);
  EXPECT_FALSE(refusal.accepted);
  EXPECT_THAT(refusal.error, HasSubstr("used before"));
  EXPECT_TRUE(refusal.certificate.empty());
  EXPECT_FALSE(cluster_.coordinator().admits(other.id()));
}

TEST_F(Members, a_code_that_has_expired_or_was_withdrawn_is_none) {
  TestNode pi(cluster_, "pi");
  const std::string late = code({.ttl_ms = 1000});
  cluster_.wall_clock_ms += 1001;
  EXPECT_THAT(pi.join(late).error, HasSubstr("expired"));
  const std::string withdrawn = code();
  for (const cluster::Invite& invite : cluster_.coordinator().invites()) {
    EXPECT_TRUE(cluster_.coordinator().revoke_invite(invite.id));
  }
  EXPECT_THAT(pi.join(withdrawn).error, HasSubstr("not known"));
  EXPECT_FALSE(cluster_.coordinator().any_invite_open());
}

TEST_F(Members, who_has_no_certificate_is_let_in_to_join_only) {
  const transport::PeerIdentity stranger{.node = {std::string(64, 'e')}, .member = false};
  const auto link = cluster_.connect(stranger);
  wire::Hello hello;
  hello.llama_pin = kTestPin;
  hello.role = wire::LinkRole::kNode;
  EXPECT_FALSE(cluster_.coordinator().terms(hello, *link.far).allowed);
  hello.role = wire::LinkRole::kJoin;
  EXPECT_TRUE(cluster_.coordinator().terms(hello, *link.far).allowed);
  hello.role = wire::LinkRole::kData;
  hello.epoch = 5;
  const auto terms = cluster_.coordinator().terms(hello, *link.far);
  EXPECT_EQ(terms.allowed.error().code(), ErrorCode::kStalePlan);
}

TEST_F(Members, a_key_that_never_joined_is_told_so_and_its_link_ends) {
  TestNode stranger(cluster_, "stranger");
  stranger.link();
  const auto reply = stranger.expect<wire::MemberReply>();
  EXPECT_EQ(reply.kind, "link");
  EXPECT_EQ(reply.error_code, "unauthenticated");
  stranger.expect_closed();
}

TEST_F(Members, a_goodbye_is_news_for_everybody_at_once) {
  self_.join_and_link();
  TestNode pi(cluster_, "pi");
  TestNode mac(cluster_, "mac");
  pi.join_and_link();
  mac.join_and_link();
  const wire::MemberReply reply = pi.ask("goodbye");
  EXPECT_EQ(reply.error_code, "") << reply.error;
  pi.expect_closed();
  mac.expect_view("pi", "offline");
  const ClusterEvent event = cluster_.event("node_offline");
  EXPECT_EQ(event.node, "pi");
  EXPECT_EQ(event.detail, "was shut down");
  EXPECT_TRUE(cluster_.coordinator().admits(pi.id())) << "it is a member as before";
  pi.link("two");
  mac.expect_view("pi", "online");
}

TEST_F(Members, a_link_that_ends_without_a_word_is_a_loss) {
  self_.join_and_link();
  TestNode pi(cluster_, "pi");
  pi.join_and_link();
  pi.unlink();
  self_.expect_view("pi", "lost");
  EXPECT_EQ(cluster_.event("node_lost").node, "pi");
}

TEST_F(Members, who_leaves_is_let_in_nowhere_and_comes_back_with_a_code_only) {
  self_.join_and_link();
  TestNode pi(cluster_, "pi");
  pi.join_and_link();
  EXPECT_EQ(pi.ask("leave").error_code, "");
  pi.expect_closed();
  self_.expect_view("pi", "left");
  EXPECT_EQ(cluster_.event("node_left").node, "pi");
  EXPECT_THAT(cluster_.shut_out(), Contains(pi.id()));
  EXPECT_FALSE(cluster_.coordinator().admits(pi.id()));
  pi.link();
  EXPECT_EQ(pi.expect<wire::MemberReply>().error_code, "unauthenticated");
  EXPECT_TRUE(pi.join(code()).accepted);
}

TEST_F(Members, a_removed_key_stays_out_also_after_a_restart) {
  self_.join_and_link();
  TestNode pi(cluster_, "pi");
  pi.join_and_link();
  ASSERT_TRUE(cluster_.coordinator().remove("pi"));
  pi.expect_closed();
  EXPECT_THAT(cluster_.shut_out(), Contains(pi.id()));
  EXPECT_EQ(cluster_.event("node_removed").node, "pi");
  EXPECT_FALSE(pi.join(code()).accepted);
  self_.unlink();
  pi.unlink();
  cluster_.restart();
  EXPECT_FALSE(cluster_.coordinator().admits(pi.id()));
  EXPECT_FALSE(pi.join(code()).accepted);
  EXPECT_FALSE(cluster_.coordinator().remove("attic")) << "the coordinator's own machine stays";
}

TEST_F(Members, members_and_their_names_survive_a_restart) {
  TestNode pi(cluster_, "pi");
  pi.join_and_link();
  EXPECT_EQ(cluster_.coordinator().rename("pi", "study").value(), "study");
  pi.unlink();
  cluster_.restart();
  EXPECT_EQ(state("study"), "offline");
  EXPECT_EQ(state("attic"), "offline") << "its own agent has not linked yet";
  pi.link();
  pi.expect_view("study", "online");
}

TEST_F(Members, the_waiting_link_of_a_copied_identity_has_no_say) {
  TestNode pi(cluster_, "pi");
  pi.join_and_link();
  // Another machine with the same key: the first one answers pings, so this one will be refused.
  wire::Hello hello;
  hello.role = wire::LinkRole::kNode;
  auto link = cluster_.connect({.node = pi.id(), .member = true});
  std::thread admitting([&] { cluster_.coordinator().admit(std::move(link.far), hello); });
  pipeline::ControlLink copy(*link.near);
  ASSERT_TRUE(copy.send(wire::NodeFacts{.name = "pi", .instance = "two"}, soon()));
  ASSERT_TRUE(copy.send(wire::MemberRequest{.kind = "leave"}, soon()));
  const auto reply = copy.expect<wire::MemberReply>(soon());
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_THAT(reply->error_code, Not(testing::IsEmpty()));
  EXPECT_EQ(state("pi"), "online");
  link.near->shutdown();
  admitting.join();
}

TEST_F(Members, an_unknown_request_is_answered_as_such) {
  self_.join_and_link();
  EXPECT_EQ(self_.ask("dance").error_code, "unsupported");
  EXPECT_EQ(self_.ask("goodbye").error_code, "") << "also of the coordinator's own agent";
  EXPECT_EQ(state("attic"), "offline");
}

}  // namespace
}  // namespace salvage::coordinator
