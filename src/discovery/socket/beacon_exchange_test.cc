// Goal: a member hears its own coordinator, at once when it asks, and nobody else. Method: sender
// and listener over the loopback interface, so that nothing leaves this machine; each test has a
// cluster of its own, so that tests may run side by side on the one port.

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bounded_queue.h"
#include "discovery/beacon_listener.h"
#include "discovery/beacon_sender.h"
#include "discovery/socket/multicast_socket.h"
#include "identity/authority.h"
#include "identity/node_identity.h"

namespace salvage::discovery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MulticastOptions kLoopback{.port = 17420, .loopback_only = true};

class Exchange : public ::testing::Test {
 protected:
  BeaconSenderOptions sender_options() {
    BeaconSenderOptions options;
    options.cluster_id = authority_.cluster_id;
    options.key_pem = key_.key_pem;
    options.certificate_pem = *identity::issue_certificate(authority_, key_.public_key_pem,
                                                           identity::NodeRole::kCoordinator);
    options.coordinator = key_.id;
    options.addresses = [] {
      return std::vector<BeaconAddress>{{*parse_ip_address("198.18.0.10"), 7420}};
    };
    options.multicast = kLoopback;
    return options;
  }
  BeaconListenerOptions listener_options() {
    BeaconListenerOptions options;
    options.cluster_id = authority_.cluster_id;
    options.authority_pem = authority_.certificate_pem;
    options.seen = [this](const Sighting& one) { (void)sightings_.push(one, clock_.now()); };
    options.multicast = kLoopback;
    return options;
  }
  std::optional<Sighting> next(Duration wait) { return sightings_.pop(clock_.now() + wait); }

  SteadyClock clock_;
  const identity::Authority authority_ = *identity::make_authority();
  const identity::NodeKey key_ = *identity::make_node_key();
  BoundedQueue<Sighting> sightings_{100};
};

TEST_F(Exchange, a_member_that_listens_hears_the_first_beacon) {
  const auto listener = BeaconListener::start(listener_options(), clock_);
  ASSERT_TRUE(listener) << listener.error().message();
  const auto sender = BeaconSender::start(sender_options(), clock_);
  ASSERT_TRUE(sender) << sender.error().message();
  const auto seen = next(seconds(10));
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->checked);
  EXPECT_EQ(seen->coordinator, key_.id);
  EXPECT_EQ(seen->source_interface, "lo");
  ASSERT_EQ(seen->addresses.size(), 2U);
  EXPECT_EQ(to_string(seen->addresses[0].address), "198.18.0.10");
  EXPECT_EQ(seen->addresses[1].port, 7420);
}

TEST_F(Exchange, a_member_that_comes_later_asks_and_is_answered_before_the_next_beacon) {
  const auto sender = BeaconSender::start(sender_options(), clock_);
  ASSERT_TRUE(sender);
  const auto listener = BeaconListener::start(listener_options(), clock_);
  ASSERT_TRUE(listener);
  (*listener)->ask();
  EXPECT_TRUE(next(seconds(4))) << "the next unasked one comes after five seconds";
}

TEST_F(Exchange, a_beacon_that_comes_twice_is_told_once) {
  const auto listener = BeaconListener::start(listener_options(), clock_);
  const auto socket = MulticastSocket::open(kLoopback);
  ASSERT_TRUE(listener && socket);
  const BeaconSenderOptions identity = sender_options();
  Beacon beacon;
  beacon.cluster_id = identity.cluster_id;
  beacon.coordinator = identity.coordinator;
  beacon.certificate = *identity::certificate_to_der(identity.certificate_pem);
  for (const std::uint16_t sequence : std::initializer_list<std::uint16_t>{1, 1, 2, 2, 1, 3}) {
    beacon.sequence = sequence;
    beacon.addresses = {{*parse_ip_address("198.18.0.10"), sequence}};
    ASSERT_TRUE(sign_beacon(beacon, identity.key_pem));
    ASSERT_GT((*socket)->send(*encode_beacon(beacon)), 0U);
  }
  for (const int wanted : {1, 2, 3}) {
    const auto seen = next(seconds(10));
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->addresses.front().port, wanted);
  }
}

TEST_F(Exchange, a_joiner_hears_without_checking) {
  auto options = listener_options();
  options.authority_pem.clear();
  const auto listener = BeaconListener::start(std::move(options), clock_);
  const auto sender = BeaconSender::start(sender_options(), clock_);
  ASSERT_TRUE(listener && sender);
  const auto seen = next(seconds(10));
  ASSERT_TRUE(seen);
  EXPECT_FALSE(seen->checked);
}

TEST_F(Exchange, beacons_of_strangers_are_not_told) {
  const auto stranger = identity::make_authority();
  // It claims to be our cluster.
  auto forged = sender_options();
  forged.certificate_pem = *identity::issue_certificate(*stranger, key_.public_key_pem,
                                                        identity::NodeRole::kCoordinator);
  auto other = sender_options();
  other.cluster_id = stranger->cluster_id;
  const auto listener = BeaconListener::start(listener_options(), clock_);
  const auto first = BeaconSender::start(std::move(forged), clock_);
  const auto second = BeaconSender::start(std::move(other), clock_);
  ASSERT_TRUE(listener && first && second);
  EXPECT_FALSE(next(milliseconds(500)));
  const auto true_one = BeaconSender::start(sender_options(), clock_);
  EXPECT_TRUE(next(seconds(10))) << "the listener was deaf and the test proved nothing";
}

TEST_F(Exchange, more_addresses_than_a_beacon_holds_are_cut) {
  auto options = sender_options();
  options.addresses = [] {
    return std::vector<BeaconAddress>(100, {*parse_ip_address("198.18.0.10"), 7420});
  };
  const auto listener = BeaconListener::start(listener_options(), clock_);
  const auto sender = BeaconSender::start(std::move(options), clock_);
  ASSERT_TRUE(listener && sender);
  const auto seen = next(seconds(10));
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->addresses.size(), kAddressesMax + 1);
}

TEST_F(Exchange, wrong_keys_are_found_at_the_start) {
  auto options = sender_options();
  options.key_pem = "nonsense";
  EXPECT_FALSE(BeaconSender::start(std::move(options), clock_));
  auto listener = listener_options();
  listener.cluster_id = "12";
  EXPECT_FALSE(BeaconListener::start(std::move(listener), clock_));
}

}  // namespace
}  // namespace salvage::discovery
