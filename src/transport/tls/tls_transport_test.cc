// Goal: TLS links keep the contract of all links, let in members and nobody else, and lose a
// removed one at once. Method: real sockets on loopback, a cluster made for the test. What hostile
// peers try stands in tls_attack_test.cc.

#include "transport/tls/tls_transport.h"

#include <atomic>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "identity/fingerprint.h"
#include "identity/openssl.h"
#include "transport/tls/tls_test_cluster.h"
#include "transport/transport_contract.h"

namespace salvage::transport {
namespace {

using identity::NodeRole;
using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<Transport> one_member() {
  return transport_of(TestCluster().coordinator());
}

// New keys every few records, so that the whole contract is kept across them.
std::unique_ptr<Transport> one_member_with_short_lived_keys() {
  TlsOptions options;
  options.rekey_bytes = 50'000;
  return transport_of(TestCluster().coordinator(), options);
}

INSTANTIATE_TEST_SUITE_P(
    Tls, TransportContract,
    testing::Values(TransportCase{"tls4", one_member, loopback},
                    TransportCase{"tls6", one_member,
                                  [] { return *parse_endpoint("tls:[::1]:0"); }},
                    TransportCase{"rekeyed", one_member_with_short_lived_keys, loopback}),
    [](const auto& one) { return one.param.name; });

TEST(TlsTransport, both_ends_know_each_other) {
  const TestCluster cluster;
  const auto coordinator = cluster.coordinator();
  const auto node = cluster.member();
  const auto there = transport_of(coordinator);
  const auto here = transport_of(node);
  const auto listener = listening(*there);
  const TlsLink link = link_between(*here, *listener);
  ASSERT_NE(link.near->identity(), nullptr);
  EXPECT_EQ(link.near->identity()->node, coordinator.id);
  EXPECT_TRUE(link.near->identity()->member);
  EXPECT_TRUE(link.near->identity()->coordinator);
  ASSERT_NE(link.far->identity(), nullptr);
  EXPECT_EQ(link.far->identity()->node, node.id);
  EXPECT_TRUE(link.far->identity()->member);
  EXPECT_FALSE(link.far->identity()->coordinator);
  EXPECT_EQ(link.far->identity()->public_key,
            identity::read_node_key(node.key_pem)->public_key_pem);
  EXPECT_THAT(link.far->peer(), HasSubstr("tls:127.0.0.1:"));
  EXPECT_EQ(link.near->peer(), to_string(listener->endpoint()));
}

TEST(TlsTransport, accept_does_not_wait_for_the_handshake) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto listener = listening(*there);
  const RawPeer silent(listener->endpoint());
  const auto accepted = listener->accept(soon());
  ASSERT_TRUE(accepted);
  EXPECT_EQ((*accepted)->identity(), nullptr);
  IncomingFrame frame;
  const auto received = (*accepted)->receive_frame(frame, in_ms(30));
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code(), ErrorCode::kDeadlineExceeded);
}

TEST(TlsTransport, a_handshake_that_was_not_over_in_time_goes_on_in_the_next_call) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto here = transport_of(cluster.member());
  const auto listener = listening(*there);
  std::unique_ptr<Connection> near;
  std::thread connecting([&] { near = std::move(*here->connect(listener->endpoint(), soon())); });
  const auto far = std::move(*listener->accept(soon()));
  IncomingFrame frame;
  // It has no time at all, again and again, and gets there all the same.
  Result<void> received = fail(ErrorCode::kDeadlineExceeded, "");
  for (const TimePoint end = soon(); far->identity() == nullptr && SteadyClock().now() < end;) {
    received = far->receive_frame(frame, in_ms(1));
    ASSERT_EQ(received.error().code(), ErrorCode::kDeadlineExceeded) << received.error().message();
  }
  connecting.join();
  ASSERT_TRUE(near->send_frame({}, soon()));
  EXPECT_TRUE(far->receive_frame(frame, soon()));
}

TEST(TlsTransport, the_sender_and_the_receiver_may_both_come_first) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto here = transport_of(cluster.member());
  const auto listener = listening(*there);
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<Connection> near;
    std::thread connecting([&] { near = std::move(*here->connect(listener->endpoint(), soon())); });
    const auto far = std::move(*listener->accept(soon()));
    std::thread sender([&] { EXPECT_TRUE(far->send_frame({}, soon())); });
    std::thread receiver([&] {
      IncomingFrame frame;
      const auto received = far->receive_frame(frame, soon());
      EXPECT_TRUE(received) << received.error().message();
    });
    connecting.join();
    IncomingFrame frame;
    EXPECT_TRUE(near->receive_frame(frame, soon()));
    EXPECT_TRUE(near->send_frame({}, soon()));
    sender.join();
    receiver.join();
  }
}

TEST(TlsTransport, a_listener_for_all_addresses_takes_both_families) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto here = transport_of(cluster.member());
  const auto listener = std::move(*there->listen(*parse_endpoint("tls:[::]:0")));
  struct Door : Listener {
    Door(Listener& listener, const std::string& address)
        : inner(listener),
          shown(
              *parse_endpoint("tls:" + address + ":" + std::to_string(listener.endpoint().port))) {}
    Result<std::unique_ptr<Connection>> accept(TimePoint deadline) override {
      return inner.accept(deadline);
    }
    void shutdown() override {}
    const Endpoint& endpoint() const override { return shown; }
    Listener& inner;
    Endpoint shown;
  };
  Door ipv4(*listener, "127.0.0.1");
  EXPECT_THAT(link_between(*here, ipv4).far->peer(), HasSubstr("tls:127.0.0.1:"));
  Door ipv6(*listener, "[::1]");
  EXPECT_THAT(link_between(*here, ipv6).far->peer(), HasSubstr("tls:[::1]:"));
}

TEST(TlsTransport, a_port_can_be_bound_again_at_once) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto here = transport_of(cluster.member());
  auto listener = listening(*there);
  const Endpoint endpoint = listener->endpoint();
  {
    // The listening side closes first, which leaves its port in the system's waiting room.
    TlsLink link = link_between(*here, *listener);
    link.far.reset();
    link.near.reset();
  }
  listener.reset();
  const auto again = there->listen(endpoint);
  EXPECT_TRUE(again) << again.error().message();
}

TEST(TlsTransport, certificates_need_no_clock) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto listener = listening(*there);
  // As on a machine whose clock is off by decades: the certificate ended long ago.
  identity::NodeIdentity old = cluster.member();
  const auto certificate = *identity::certificate_from_pem(old.certificate_pem);
  const auto issuer = *identity::private_key_from_pem(cluster.authority().key_pem);
  ASSERT_EQ(ASN1_TIME_set_string(X509_getm_notBefore(certificate.get()), "19800101000000Z"), 1);
  ASSERT_EQ(ASN1_TIME_set_string(X509_getm_notAfter(certificate.get()), "19800102000000Z"), 1);
  ASSERT_GT(X509_sign(certificate.get(), issuer.get(), nullptr), 0);
  old.certificate_pem = *identity::certificate_to_pem(*certificate);
  const auto here = transport_of(old);
  EXPECT_NE(link_between(*here, *listener).far, nullptr);
  // The same the other way round.
  const auto old_listener = listening(*here);
  EXPECT_NE(link_between(*there, *old_listener).far, nullptr);
}

// The only test that measures time: a pace that was ignored would be over in a millisecond, one
// that is kept needs half a second for what is beyond the system's first burst.
TEST(TlsTransport, a_link_keeps_its_pace_and_goes_on_without_one) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto here = transport_of(cluster.member());
  const auto listener = listening(*there);
  const TlsLink link = link_between(*here, *listener);
  const std::vector<std::byte> data(1 << 20);
  OutgoingFrame frame;
  frame.type = wire::FrameType::kMicroBatch;
  frame.data = data;
  const auto seconds_for_one = [&] {
    const TimePoint begin = SteadyClock().now();
    std::thread sender([&] { EXPECT_TRUE(link.near->send_frame(frame, soon())); });
    IncomingFrame incoming;
    std::vector<std::byte> got(data.size());
    EXPECT_TRUE(link.far->receive_frame(incoming, soon()));
    EXPECT_TRUE(link.far->receive_data(got, soon()));
    sender.join();
    return std::chrono::duration<double>(SteadyClock().now() - begin).count();
  };
  link.near->set_pace(1'000'000);
  EXPECT_GT(seconds_for_one(), 0.5);
  // Half a second and more something was under way; the other way it was a handshake.
  EXPECT_GT(link.near->busy_us().value_or(0), 400'000U);
  EXPECT_LT(link.far->busy_us().value_or(1'000'000), 400'000U);
  link.near->set_pace(0);
  EXPECT_TRUE(link.near->send_frame({}, soon()));
  IncomingFrame incoming;
  EXPECT_TRUE(link.far->receive_frame(incoming, soon()));
}

// --- who is let in ---

TEST(TlsMembers, another_clusters_node_is_refused_by_both_sides_with_the_reason) {
  const TestCluster ours;
  const TestCluster theirs;
  const auto there = transport_of(ours.coordinator());
  const auto here = transport_of(theirs.member());
  const auto listener = listening(*there);
  const Outcome outcome = outcome_between(*here, listener->endpoint(), *listener);
  EXPECT_EQ(outcome.near.code(), ErrorCode::kUnauthenticated) << outcome.near.message();
  EXPECT_THAT(outcome.near.message(), HasSubstr("another cluster"));
  EXPECT_EQ(outcome.far.code(), ErrorCode::kUnauthenticated) << outcome.far.message();
  EXPECT_THAT(outcome.far.message(), HasSubstr("another cluster"));
}

TEST(TlsMembers, a_removed_node_is_refused_and_told_so) {
  const TestCluster cluster;
  const auto removed = cluster.member();
  TlsOptions options;
  options.admits = [&](const NodeId& node) { return node != removed.id; };
  const auto there = transport_of(cluster.coordinator(), options);
  const auto here = transport_of(removed);
  const auto listener = listening(*there);
  const Outcome outcome = outcome_between(*here, listener->endpoint(), *listener);
  EXPECT_EQ(outcome.near.code(), ErrorCode::kPermissionDenied) << outcome.near.message();
  EXPECT_THAT(outcome.near.message(), HasSubstr("no longer, a member"));
  EXPECT_EQ(outcome.far.code(), ErrorCode::kPermissionDenied) << outcome.far.message();
  EXPECT_THAT(outcome.far.message(), HasSubstr(identity::short_form(removed.id)));
  // Others still come in.
  const auto other = transport_of(cluster.member());
  EXPECT_NE(link_between(*other, *listener).far, nullptr);
}

TEST(TlsMembers, nobody_connects_to_a_removed_node_either) {
  const TestCluster cluster;
  const auto removed = cluster.member();
  TlsOptions options;
  options.admits = [&](const NodeId& node) { return node != removed.id; };
  const auto there = transport_of(removed);
  const auto here = transport_of(cluster.member(), options);
  const auto listener = listening(*there);
  const Outcome outcome = outcome_between(*here, listener->endpoint(), *listener);
  EXPECT_EQ(outcome.near.code(), ErrorCode::kPermissionDenied) << outcome.near.message();
  EXPECT_EQ(outcome.far.code(), ErrorCode::kPermissionDenied) << outcome.far.message();
}

TEST(TlsMembers, live_links_of_a_removed_node_end_at_once_and_no_others) {
  const TestCluster cluster;
  const auto victim = cluster.member();
  const auto there = transport_of(cluster.coordinator());
  const auto here = transport_of(victim);
  const auto other = transport_of(cluster.member());
  const auto listener = listening(*there);
  const TlsLink first = link_between(*here, *listener);
  const TlsLink second = link_between(*here, *listener);
  const TlsLink spared = link_between(*other, *listener);

  Result<void> waiting;
  std::thread receiver([&] {
    IncomingFrame frame;
    waiting = first.far->receive_frame(frame);  // for ever, if nobody ends it
  });
  there->close_peer(victim.id);
  receiver.join();
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(waiting.error().message(), HasSubstr("no longer a member"));
  IncomingFrame frame;
  EXPECT_FALSE(second.far->receive_frame(frame));
  EXPECT_FALSE(second.far->send_frame({}));
  EXPECT_FALSE(first.near->receive_frame(frame));

  ASSERT_TRUE(spared.near->send_frame({}));
  EXPECT_TRUE(spared.far->receive_frame(frame, soon()));
}

TEST(TlsMembers, a_removal_in_the_middle_of_a_handshake_is_not_missed) {
  const TestCluster cluster;
  const auto victim = cluster.member();
  SecureTransport* listening_side = nullptr;
  std::atomic<int> asked = 0;
  TlsOptions options;
  // Removed right after the first question: before the link is known to anybody.
  options.admits = [&](const NodeId&) { return ++asked == 1; };
  const auto there = transport_of(cluster.coordinator(), options);
  listening_side = there.get();
  const auto here = transport_of(victim);
  const auto listener = listening(*listening_side);
  const Outcome outcome = outcome_between(*here, listener->endpoint(), *listener);
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(outcome.far.message(), HasSubstr("no longer a member"));
  EXPECT_NE(outcome.near.message(), "succeeded");
}

TEST(TlsMembers, another_node_than_the_expected_one_is_refused_with_both_names) {
  const TestCluster cluster;
  const auto present = cluster.member();
  const auto expected = cluster.member();
  const auto there = transport_of(present);
  const auto here = transport_of(cluster.member());
  const auto listener = listening(*there);
  Endpoint endpoint = listener->endpoint();
  endpoint.node = expected.id;
  const Outcome outcome = outcome_between(*here, endpoint, *listener);
  EXPECT_EQ(outcome.near.code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(outcome.near.message(), AllOf(HasSubstr(identity::short_form(present.id)),
                                            HasSubstr(identity::short_form(expected.id))));
  endpoint.node = present.id;
  EXPECT_EQ(outcome_between(*here, endpoint, *listener).near.message(), "succeeded");
}

TEST(TlsMembers, a_listener_for_one_node_lets_in_no_other) {
  const TestCluster cluster;
  const auto invited = cluster.member();
  const auto there = transport_of(cluster.coordinator());
  Endpoint endpoint = loopback();
  endpoint.node = invited.id;
  const auto listener = std::move(*there->listen(endpoint));
  Endpoint plain = listener->endpoint();
  plain.node = {};
  const auto guest = transport_of(invited);
  EXPECT_EQ(outcome_between(*guest, plain, *listener).far.message(), "succeeded");
  const auto stranger = transport_of(cluster.member());
  EXPECT_EQ(outcome_between(*stranger, plain, *listener).far.code(), ErrorCode::kUnauthenticated);
}

TEST(TlsMembers, who_has_not_joined_can_not_connect_and_lets_nobody_in) {
  const TestCluster cluster;
  const auto there = transport_of(key_only());
  const auto here = transport_of(cluster.member());
  const auto refused = there->connect(loopback(), soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(refused.error().message(), HasSubstr("not joined"));
  const auto listener = listening(*there);
  const Outcome outcome = outcome_between(*here, listener->endpoint(), *listener);
  EXPECT_EQ(outcome.far.code(), ErrorCode::kUnauthenticated);
}

TEST(TlsMembers, an_identity_that_does_not_fit_is_not_taken) {
  const TestCluster cluster;
  TlsOptions options;
  options.identity = cluster.member();
  options.identity.key_pem = cluster.member().key_pem;
  EXPECT_EQ(make_tls_transport(options).error().code(), ErrorCode::kCorrupt);
}

TEST(TlsMembers, plaintext_endpoints_are_not_for_this_transport) {
  const auto here = transport_of(TestCluster().member());
  for (const char* text : {"unix:/tmp/x", "tcp:127.0.0.1:0"}) {
    EXPECT_EQ(here->listen(*parse_endpoint(text)).error().code(), ErrorCode::kUnsupported);
    EXPECT_EQ(here->connect(*parse_endpoint(text), soon()).error().code(), ErrorCode::kUnsupported);
  }
  const auto unknown = here->connect(*parse_endpoint("tls:[fe80::1%nosuchlink]:1"), soon());
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message(), HasSubstr("nosuchlink"));
}

// --- joining ---

struct Joining {
  Result<JoinLink> near = fail(ErrorCode::kInternal, "nobody has tried");
  std::unique_ptr<Connection> far;
  Result<void> far_received = fail(ErrorCode::kInternal, "nothing has come");
};

// The joiner sends its secret only if connect_for_join() succeeded, as a join has to.
Joining join(SecureTransport& joiner, Listener& listener, const std::string& fingerprint) {
  Joining joining;
  std::thread connecting([&] {
    joining.near = joiner.connect_for_join(listener.endpoint(), fingerprint, soon());
    if (!joining.near) return;
    EXPECT_TRUE(joining.near->connection->send_frame({}, soon()));
  });
  joining.far = std::move(*listener.accept(soon()));
  IncomingFrame frame;
  joining.far_received = joining.far->receive_frame(frame, soon());
  connecting.join();
  return joining;
}

TEST(TlsJoining, a_key_becomes_a_member_over_one_link_and_uses_it_on_the_next) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto listener = std::move(*there->listen_for_joiners(loopback()));
  identity::NodeIdentity newcomer = key_only();
  const auto here = transport_of(newcomer);

  const Joining joining = join(*here, *listener, cluster.authority().cluster_id);
  ASSERT_TRUE(joining.near) << joining.near.error().message();
  ASSERT_TRUE(joining.far_received) << joining.far_received.error().message();
  EXPECT_EQ(joining.near->authority_pem, cluster.authority().certificate_pem);
  EXPECT_TRUE(joining.near->connection->identity()->coordinator);
  EXPECT_EQ(joining.far->identity()->node, newcomer.id);
  EXPECT_FALSE(joining.far->identity()->member);

  newcomer.certificate_pem = *identity::issue_certificate(
      cluster.authority(), joining.far->identity()->public_key, NodeRole::kNode);
  newcomer.authority_pem = joining.near->authority_pem;
  ASSERT_TRUE(here->set_identity(newcomer));
  const TlsLink link = link_between(*here, *listener);
  EXPECT_TRUE(link.far->identity()->member);
  EXPECT_EQ(link.far->identity()->node, newcomer.id);
}

TEST(TlsJoining, another_clusters_coordinator_gets_nothing) {
  const TestCluster ours;
  const TestCluster theirs;
  const auto there = transport_of(theirs.coordinator());
  const auto listener = std::move(*there->listen_for_joiners(loopback()));
  const auto here = transport_of(key_only());
  const Joining joining = join(*here, *listener, ours.authority().cluster_id);
  ASSERT_FALSE(joining.near);
  EXPECT_EQ(joining.near.error().code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(joining.near.error().message(),
              HasSubstr(identity::short_form(ours.authority().cluster_id)));
  EXPECT_FALSE(joining.far_received);
}

TEST(TlsJoining, a_member_that_is_not_the_coordinator_is_not_trusted_with_the_secret) {
  const TestCluster cluster;
  const auto member = cluster.member();
  const auto there = transport_of(member);
  const auto listener = std::move(*there->listen_for_joiners(loopback()));
  const auto here = transport_of(key_only());
  const Joining joining = join(*here, *listener, cluster.authority().cluster_id);
  ASSERT_FALSE(joining.near);
  EXPECT_EQ(joining.near.error().code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(joining.near.error().message(), HasSubstr("isn't its coordinator"));
  EXPECT_FALSE(joining.far_received);
}

TEST(TlsJoining, a_listener_for_members_takes_no_joiner) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto listener = listening(*there);
  const auto here = transport_of(key_only());
  const Joining joining = join(*here, *listener, cluster.authority().cluster_id);
  ASSERT_FALSE(joining.far_received);
  EXPECT_EQ(joining.far_received.error().code(), ErrorCode::kUnauthenticated);
  EXPECT_EQ(joining.far->identity(), nullptr);
}

TEST(TlsJoining, a_listener_for_joiners_still_refuses_the_removed_and_the_foreign) {
  const TestCluster cluster;
  const auto removed = cluster.member();
  TlsOptions options;
  options.admits = [&](const NodeId& node) { return node != removed.id; };
  const auto there = transport_of(cluster.coordinator(), options);
  const auto listener = std::move(*there->listen_for_joiners(loopback()));
  const auto gone = transport_of(removed);
  EXPECT_EQ(outcome_between(*gone, listener->endpoint(), *listener).far.code(),
            ErrorCode::kPermissionDenied);
  const auto foreign = transport_of(TestCluster().member());
  EXPECT_EQ(outcome_between(*foreign, listener->endpoint(), *listener).far.code(),
            ErrorCode::kUnauthenticated);
}

// --- two threads on one link ---

TEST(TlsThreads, large_frames_cross_in_both_directions_while_keys_change) {
  const TestCluster cluster;
  TlsOptions options;
  options.rekey_bytes = 1'000'000;
  const auto there = transport_of(cluster.coordinator(), options);
  const auto here = transport_of(cluster.member(), options);
  const auto listener = listening(*there);
  const TlsLink link = link_between(*here, *listener);
  std::vector<std::byte> data(5'000'003);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 31 + i / 9973);
  const auto send = [&](Connection& connection) {
    OutgoingFrame frame;
    frame.type = wire::FrameType::kMicroBatch;
    frame.data = data;
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(connection.send_frame(frame, soon()));
  };
  const auto receive = [&](Connection& connection) {
    IncomingFrame frame;
    std::vector<std::byte> got(data.size());
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(connection.receive_frame(frame, soon()));
      ASSERT_TRUE(connection.receive_data(got, soon()));
      ASSERT_EQ(got, data);
    }
  };
  std::thread a([&] { send(*link.near); });
  std::thread b([&] { send(*link.far); });
  std::thread c([&] { receive(*link.near); });
  receive(*link.far);
  a.join();
  b.join();
  c.join();
}

TEST(TlsThreads, shutting_down_while_both_threads_work_ends_both) {
  const TestCluster cluster;
  const auto there = transport_of(cluster.coordinator());
  const auto here = transport_of(cluster.member());
  const auto listener = listening(*there);
  const std::vector<std::byte> data(300'000);
  for (int round = 0; round < 10; ++round) {
    const TlsLink link = link_between(*here, *listener);
    std::atomic<int> frames = 0;
    const auto send = [&](Connection& connection) {
      OutgoingFrame frame;
      frame.type = wire::FrameType::kMicroBatch;
      frame.data = data;
      Result<void> sent;
      for (int i = 0; i < 100'000 && sent; ++i) sent = connection.send_frame(frame);
      ASSERT_FALSE(sent);
      EXPECT_EQ(sent.error().code(), ErrorCode::kUnavailable) << sent.error().message();
    };
    const auto receive = [&](Connection& connection) {
      IncomingFrame frame;
      std::vector<std::byte> got(data.size());
      Result<void> received;
      while (received) {
        received = connection.receive_frame(frame);
        if (received) received = connection.receive_data(got);
        ++frames;
      }
      EXPECT_EQ(received.error().code(), ErrorCode::kUnavailable) << received.error().message();
    };
    std::thread a([&] { send(*link.near); });
    std::thread b([&] { send(*link.far); });
    std::thread c([&] { receive(*link.near); });
    std::thread d([&] { receive(*link.far); });
    while (frames < 4) std::this_thread::yield();
    (round % 2 == 0 ? link.near : link.far)->shutdown();
    for (std::thread* thread : {&a, &b, &c, &d}) thread->join();
  }
}

}  // namespace
}  // namespace salvage::transport
