#pragma once

// The addresses of this machine, the best first: a cable before Wi-Fi before anything else, bridges
// of containers and virtual machines last, for no other machine can reach those. What kind of link
// an interface is stands in /sys, whose root is a parameter, so that machines are tested that we
// don't have. Addresses on a link without a carrier are left out.
// Any thread; unreadable means unknown, never an error.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"

namespace salvage::discovery {

// In the order in which they are preferred.
enum class LinkType : std::uint8_t { kWired, kWifi, kOther, kVirtual, kLoopback };

// "wired", "wifi", "other", "virtual", "loopback"
std::string_view link_type_name(LinkType type);

struct LinkFacts {
  LinkType type = LinkType::kOther;
  std::uint32_t speed_mbit = 0;  // 0: unknown
  friend bool operator==(const LinkFacts&, const LinkFacts&) = default;
};

LinkFacts link_facts(const std::string& interface, const std::filesystem::path& sys = "/sys");

struct LocalAddress {
  IpAddress address;
  std::string interface;
  LinkFacts link;
  // fe80::/10 and 169.254/16: means something only together with the interface.
  bool link_local = false;
  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};

// Best first. Loopback addresses come last; IPv4 before IPv6 on the same link, link-local after.
std::vector<LocalAddress> local_addresses(const std::filesystem::path& sys = "/sys");

// The same for a given list; only `address` and `interface` are looked at.
std::vector<LocalAddress> rank_addresses(std::vector<LocalAddress> addresses,
                                         const std::filesystem::path& sys);

}  // namespace salvage::discovery
