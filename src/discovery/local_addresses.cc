#include "discovery/local_addresses.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace salvage::discovery {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSpeedMbitMax = 1'000'000;
// A VLAN on a bond on a bridge: deeper is a loop in somebody's setup.
constexpr int kLowerDepthMax = 4;
// ARPHRD_* of the kernel.
constexpr long kTypeEthernet = 1;
constexpr long kTypeLoopback = 772;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::optional<long> number_in(const fs::path& path) {
  std::ifstream stream(path);
  long value = 0;
  if (stream >> value) return value;
  return std::nullopt;
}

// DEVTYPE of the interface: "wlan", "bridge", "vlan", "wwan", ...; empty for a plain card.
std::string device_type(const fs::path& folder) {
  std::ifstream stream(folder / "uevent");
  std::string line;
  while (std::getline(stream, line)) {
    if (line.starts_with("DEVTYPE=")) return line.substr(8);
  }
  return "";
}

bool begins_with_any(const std::string& name, std::initializer_list<const char*> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const char* one) { return name.starts_with(one); });
}

// Names that container and virtual machine software gives to what only it uses.
bool is_virtual_name(const std::string& name) {
  return begins_with_any(name, {"docker", "br-", "veth", "virbr", "vnet", "lxc", "lxd", "cni",
                                "flannel", "cali", "podman", "vmnet", "vboxnet", "ifb", "dummy"});
}

// Interfaces that this one is made of: the ports of a bridge, what lies under a VLAN or a bond.
std::vector<std::string> lower_interfaces(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder / "brif", error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("lower_")) names.push_back(name.substr(6));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class SysClassNet {
 public:
  explicit SysClassNet(fs::path root) : root_(std::move(root)) {}

  LinkFacts facts(const std::string& name, int depth = 0) const {
    const fs::path folder = root_ / name;
    LinkFacts facts{type_of(name, folder, depth), 0};
    const auto speed = number_in(folder / "speed");
    if (speed && *speed > 0 && *speed <= kSpeedMbitMax) {
      facts.speed_mbit = static_cast<std::uint32_t>(*speed);
    }
    return facts;
  }

 private:
  LinkType type_of(const std::string& name, const fs::path& folder, int depth) const {
    const auto type = number_in(folder / "type");
    if (type == kTypeLoopback) return LinkType::kLoopback;
    const std::string device = device_type(folder);
    if (device == "wlan" || is_there(folder / "wireless") || is_there(folder / "phy80211") ||
        name.starts_with("wl")) {
      return LinkType::kWifi;
    }
    if (device == "wwan" || type != kTypeEthernet) return LinkType::kOther;
    if (is_virtual_name(name)) return LinkType::kVirtual;
    if (is_there(folder / "device")) return LinkType::kWired;
    // A program's own device: a VPN, unless somebody passes it off as a card.
    if (is_there(folder / "tun_flags") && !begins_with_any(name, {"eth", "en"})) {
      return LinkType::kOther;
    }
    if (device == "bridge" || is_there(folder / "bridge")) {
      return type_of_best_lower(folder, depth, LinkType::kVirtual);
    }
    // A container's own eth0 has no device behind it either, and is its way to the LAN.
    return type_of_best_lower(folder, depth, LinkType::kWired);
  }

  // A bridge is as good as its best port, if that is a card; one with only virtual ports is
  // virtual.
  LinkType type_of_best_lower(const fs::path& folder, int depth, LinkType if_none) const {
    std::optional<LinkType> best;
    if (depth < kLowerDepthMax) {
      for (const std::string& lower : lower_interfaces(folder)) {
        const LinkType type = facts(lower, depth + 1).type;
        if (!best || type < *best) best = type;
      }
    }
    return best.value_or(if_none);
  }

  const fs::path root_;
};

bool is_link_local(const IpAddress& address) {
  if (address.v6) return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
  return address.bytes[0] == 169 && address.bytes[1] == 254;
}

std::optional<IpAddress> ip_address_of(const sockaddr& any) {
  IpAddress address;
  if (any.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &any, sizeof(v4));
    std::memcpy(address.bytes.data(), &v4.sin_addr, sizeof(v4.sin_addr));
    return address;
  }
  if (any.sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &any, sizeof(v6));
    address.v6 = true;
    std::memcpy(address.bytes.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
    return address;
  }
  return std::nullopt;
}

}  // namespace

std::string_view link_type_name(LinkType type) {
  constexpr std::array<std::string_view, 5> kNames{"wired", "wifi", "other", "virtual", "loopback"};
  return kNames.at(static_cast<std::size_t>(type));
}

LinkFacts link_facts(const std::string& interface, const std::filesystem::path& sys) {
  return SysClassNet(sys / "class/net").facts(interface);
}

std::vector<LocalAddress> rank_addresses(std::vector<LocalAddress> addresses,
                                         const std::filesystem::path& sys) {
  std::map<std::string, LinkFacts> links;
  for (LocalAddress& one : addresses) {
    const auto [link, is_new] = links.try_emplace(one.interface);
    if (is_new) link->second = link_facts(one.interface, sys);
    one.link = link->second;
    one.link_local = is_link_local(one.address);
  }
  const auto rank = [](const LocalAddress& one) {
    // A link-local address is worse than any other on a real link, and better than a virtual one.
    const bool last_resort = one.link_local && one.link.type < LinkType::kVirtual;
    return std::tuple(last_resort ? LinkType::kOther : one.link.type, last_resort,
                      kSpeedMbitMax - one.link.speed_mbit, one.interface, one.address.v6);
  };
  std::stable_sort(addresses.begin(), addresses.end(),
                   [&](const LocalAddress& a, const LocalAddress& b) { return rank(a) < rank(b); });
  return addresses;
}

std::vector<LocalAddress> local_addresses(const std::filesystem::path& sys) {
  std::vector<LocalAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    // IFF_RUNNING: there is a carrier.
    constexpr unsigned kUsable = IFF_UP | IFF_RUNNING;
    if (one->ifa_addr == nullptr || (one->ifa_flags & kUsable) != kUsable) continue;
    if (auto address = ip_address_of(*one->ifa_addr)) {
      found.push_back({.address = *address, .interface = one->ifa_name});
    }
  }
  return rank_addresses(std::move(found), sys);
}

}  // namespace salvage::discovery
