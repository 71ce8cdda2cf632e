// Goal: the address that others should use comes first, on machines that we don't have. Method:
// /sys trees as such machines have them, made in a temporary folder; and this machine's own.

#include "discovery/local_addresses.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::discovery {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

// One interface of a recorded tree.
struct Card {
  std::string name;
  std::string type = "1";
  std::string speed;                 // empty: no such file
  std::vector<std::string> folders;  // below it
  std::string uevent;
};

class Sys : public ::testing::Test {
 protected:
  Sys() {
    std::string name = (fs::temp_directory_path() / "salvage-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~Sys() override { fs::remove_all(root_); }

  void add(const Card& card) const {
    const fs::path folder = root_ / "class/net" / card.name;
    fs::create_directories(folder);
    std::ofstream(folder / "type") << card.type << '\n';
    if (!card.speed.empty()) std::ofstream(folder / "speed") << card.speed << '\n';
    std::ofstream(folder / "uevent") << card.uevent << "INTERFACE=" << card.name << '\n';
    for (const std::string& one : card.folders) fs::create_directories(folder / one);
  }
  LinkFacts facts(const std::string& name) const { return link_facts(name, root_); }
  LinkType type(const std::string& name) const { return facts(name).type; }

  // "interface address" in the order of preference.
  std::vector<std::string> ranked(const std::vector<std::pair<std::string, std::string>>& list) {
    std::vector<LocalAddress> addresses;
    for (const auto& [interface, address] : list) {
      addresses.push_back({.address = *parse_ip_address(address), .interface = interface});
    }
    std::vector<std::string> names;
    for (const LocalAddress& one : rank_addresses(addresses, root_)) {
      names.push_back(one.interface + " " + to_string(one.address));
    }
    return names;
  }

  fs::path root_;
};

TEST_F(Sys, a_laptop_s_cable_wi_fi_and_loopback) {
  add({.name = "enp0s25", .speed = "1000", .folders = {"device"}});
  add({.name = "wlp3s0",
       .folders = {"device", "wireless", "phy80211"},
       .uevent = "DEVTYPE=wlan\n"});
  add({.name = "lo", .type = "772"});
  EXPECT_EQ(facts("enp0s25"), (LinkFacts{LinkType::kWired, 1000}));
  EXPECT_EQ(facts("wlp3s0"), (LinkFacts{LinkType::kWifi, 0}));
  EXPECT_EQ(type("lo"), LinkType::kLoopback);
  EXPECT_THAT(ranked({{"lo", "127.0.0.1"},
                      {"wlp3s0", "192.168.1.30"},
                      {"enp0s25", "fe80::1"},
                      {"enp0s25", "fd00::30"},
                      {"enp0s25", "192.168.1.31"}}),
              ElementsAre("enp0s25 192.168.1.31", "enp0s25 fd00::30", "wlp3s0 192.168.1.30",
                          "enp0s25 fe80::1", "lo 127.0.0.1"));
}

TEST_F(Sys, old_names_and_drivers_that_say_little_are_known_too) {
  add({.name = "eth0", .speed = "100", .folders = {"device"}});
  add({.name = "wlan0", .folders = {"device"}});
  EXPECT_EQ(facts("eth0"), (LinkFacts{LinkType::kWired, 100}));
  EXPECT_EQ(type("wlan0"), LinkType::kWifi);
}

TEST_F(Sys, the_faster_of_two_cables_comes_first) {
  add({.name = "eno1", .speed = "1000", .folders = {"device"}});
  add({.name = "eno2", .speed = "10000", .folders = {"device"}});
  add({.name = "eno3", .speed = "-1", .folders = {"device"}});
  EXPECT_EQ(facts("eno3").speed_mbit, 0U) << "-1 means that the driver doesn't know";
  EXPECT_THAT(ranked({{"eno3", "10.0.0.3"}, {"eno1", "10.0.0.1"}, {"eno2", "10.0.0.2"}}),
              ElementsAre("eno2 10.0.0.2", "eno1 10.0.0.1", "eno3 10.0.0.3"));
}

TEST_F(Sys, bridges_of_containers_and_virtual_machines_come_last) {
  add({.name = "eth0", .folders = {"device"}});
  add({.name = "docker0", .folders = {"bridge", "brif"}, .uevent = "DEVTYPE=bridge\n"});
  add({.name = "br-5c3f0e", .folders = {"bridge", "brif/veth1"}, .uevent = "DEVTYPE=bridge\n"});
  add({.name = "virbr0", .folders = {"bridge"}, .uevent = "DEVTYPE=bridge\n"});
  add({.name = "veth1"});
  add({.name = "lo", .type = "772"});
  for (const char* name : {"docker0", "br-5c3f0e", "virbr0", "veth1"}) {
    EXPECT_EQ(type(name), LinkType::kVirtual) << name;
  }
  EXPECT_THAT(ranked({{"docker0", "172.17.0.1"}, {"lo", "127.0.0.1"}, {"eth0", "192.168.1.2"}}),
              ElementsAre("eth0 192.168.1.2", "docker0 172.17.0.1", "lo 127.0.0.1"));
}

TEST_F(Sys, a_bridge_over_a_real_card_is_that_card) {
  add({.name = "enp1s0", .speed = "1000", .folders = {"device"}});
  add({.name = "vnet3"});
  add({.name = "br0",
       .speed = "1000",
       .folders = {"bridge", "brif/enp1s0", "brif/vnet3"},
       .uevent = "DEVTYPE=bridge\n"});
  EXPECT_EQ(facts("br0"), (LinkFacts{LinkType::kWired, 1000}));
}

TEST_F(Sys, a_vlan_or_bond_is_what_lies_under_it) {
  add({.name = "wlp2s0", .folders = {"device", "phy80211"}, .uevent = "DEVTYPE=wlan\n"});
  add({.name = "enp1s0", .folders = {"device"}});
  add({.name = "guest", .folders = {"lower_wlp2s0"}, .uevent = "DEVTYPE=vlan\n"});
  add({.name = "enp1s0.20", .folders = {"lower_enp1s0"}, .uevent = "DEVTYPE=vlan\n"});
  add({.name = "bond0", .folders = {"bonding", "lower_enp1s0", "lower_wlp2s0"}});
  EXPECT_EQ(type("guest"), LinkType::kWifi);
  EXPECT_EQ(type("enp1s0.20"), LinkType::kWired);
  EXPECT_EQ(type("bond0"), LinkType::kWired);
}

TEST_F(Sys, interfaces_that_go_round_in_circles_end) {
  add({.name = "a", .folders = {"lower_b"}});
  add({.name = "b", .folders = {"lower_a"}});
  EXPECT_EQ(type("a"), LinkType::kWired);
}

TEST_F(Sys, tunnels_and_phone_modems_are_other_links) {
  add({.name = "wg0", .type = "65534"});
  add({.name = "tun0", .type = "65534"});
  add({.name = "tap0"});
  std::ofstream(root_ / "class/net/tap0/tun_flags") << "0x1002\n";
  add({.name = "wwan0", .folders = {"device"}, .uevent = "DEVTYPE=wwan\n"});
  for (const char* name : {"wg0", "tun0", "tap0", "wwan0"}) EXPECT_EQ(type(name), LinkType::kOther);
}

TEST_F(Sys, a_container_s_own_card_is_its_cable) {
  add({.name = "eth0", .speed = "10000"});
  EXPECT_EQ(facts("eth0"), (LinkFacts{LinkType::kWired, 10000}));
}

TEST_F(Sys, what_cannot_be_read_is_another_link_of_unknown_speed) {
  EXPECT_EQ(facts("gone"), (LinkFacts{LinkType::kOther, 0}));
  add({.name = "odd", .type = "x", .speed = "99999999999"});
  EXPECT_EQ(facts("odd"), (LinkFacts{LinkType::kOther, 0}));
}

TEST_F(Sys, addresses_that_need_an_interface_are_marked) {
  std::vector<LocalAddress> addresses;
  for (const char* text : {"fe80::1", "febf::1", "fec0::1", "169.254.3.4", "169.253.3.4"}) {
    addresses.push_back({.address = *parse_ip_address(text), .interface = "x"});
  }
  int marked = 0;
  for (const LocalAddress& one : rank_addresses(addresses, root_)) marked += one.link_local ? 1 : 0;
  EXPECT_EQ(marked, 3);
}

TEST(LocalAddresses, this_machine_has_loopback_and_it_comes_last) {
  const auto addresses = local_addresses();
  ASSERT_FALSE(addresses.empty());
  EXPECT_EQ(addresses.back().link.type, LinkType::kLoopback);
  EXPECT_EQ(link_type_name(addresses.back().link.type), "loopback");
}

}  // namespace
}  // namespace salvage::discovery
