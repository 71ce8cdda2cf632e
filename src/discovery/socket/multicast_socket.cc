#include "discovery/socket/multicast_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "discovery/beacon.h"

namespace salvage::discovery {
namespace {

constexpr const char* kGroup4 = "239.255.74.20";
constexpr const char* kGroup6 = "ff02::7420";
constexpr int kReceivedAtOnce = 32;

struct Membership {
  unsigned interface = 0;
  std::string name;
  bool v6 = false;
};

bool is_wanted(unsigned flags, bool loopback_only) {
  constexpr unsigned kLan = IFF_UP | IFF_MULTICAST;
  if (loopback_only) return (flags & IFF_LOOPBACK) != 0;
  return (flags & IFF_LOOPBACK) == 0 && (flags & kLan) == kLan;
}

// Interfaces that are up, can multicast and have an address of the family; loopback is not a LAN.
std::vector<Membership> possible_memberships(bool loopback_only) {
  std::vector<Membership> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::set<std::pair<unsigned, bool>> seen;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || !is_wanted(one->ifa_flags, loopback_only)) continue;
    const int family = one->ifa_addr->sa_family;
    const unsigned index = ::if_nametoindex(one->ifa_name);
    if ((family != AF_INET && family != AF_INET6) || index == 0) continue;
    if (!seen.insert({index, family == AF_INET6}).second) continue;
    if (found.size() < 2 * kInterfacesMax)
      found.push_back({index, one->ifa_name, family == AF_INET6});
  }
  return found;
}

template <typename Value>
bool set_option(int fd, int level, int option, const Value& value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

sockaddr_in group4(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  (void)::inet_pton(AF_INET, kGroup4, &address.sin_addr);
  return address;
}

sockaddr_in6 group6(std::uint16_t port, unsigned interface) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_scope_id = interface;
  (void)::inet_pton(AF_INET6, kGroup6, &address.sin6_addr);
  return address;
}

bool join4(int fd, std::uint16_t port, unsigned interface) {
  const int one = 1;
  const int no = 0;
  const sockaddr_in group = group4(port);
  ip_mreqn request{};
  request.imr_multiaddr = group.sin_addr;
  request.imr_ifindex = static_cast<int>(interface);
  // IP_MULTICAST_ALL off: only what comes on this interface.
  return set_option(fd, SOL_SOCKET, SO_REUSEADDR, one) &&
         set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, no) &&
         set_option(fd, IPPROTO_IP, IP_MULTICAST_TTL, one) &&
         set_option(fd, IPPROTO_IP, IP_MULTICAST_IF, request) &&
         ::bind(fd, reinterpret_cast<const sockaddr*>(&group), sizeof(group)) == 0 &&
         set_option(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, request);
}

bool join6(int fd, std::uint16_t port, unsigned interface) {
  const int one = 1;
  const sockaddr_in6 group = group6(port, interface);
  ipv6_mreq request{};
  request.ipv6mr_multiaddr = group.sin6_addr;
  request.ipv6mr_interface = interface;
  return set_option(fd, SOL_SOCKET, SO_REUSEADDR, one) &&
         set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, one) &&
         set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, one) &&
         set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, interface) &&
         ::bind(fd, reinterpret_cast<const sockaddr*>(&group), sizeof(group)) == 0 &&
         set_option(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, request);
}

// -1 if the interface refuses.
int join(const Membership& membership, std::uint16_t port) {
  const int fd =
      ::socket(membership.v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const bool joined =
      membership.v6 ? join6(fd, port, membership.interface) : join4(fd, port, membership.interface);
  if (joined) return fd;
  ::close(fd);
  return -1;
}

IpAddress address_of(const sockaddr_storage& storage) {
  IpAddress address;
  address.v6 = storage.ss_family == AF_INET6;
  if (address.v6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &storage, sizeof(v6));
    std::memcpy(address.bytes.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
  } else {
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof(v4));
    std::memcpy(address.bytes.data(), &v4.sin_addr, sizeof(v4.sin_addr));
  }
  return address;
}

int milliseconds_until(TimePoint now, TimePoint deadline) {
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  return static_cast<int>(std::min<std::int64_t>(left.count(), 60'000));
}

}  // namespace

Result<std::unique_ptr<MulticastSocket>> MulticastSocket::open(const MulticastOptions& options) {
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("make an event: {}", std::generic_category().message(errno)));
  }
  std::unique_ptr<MulticastSocket> socket(new MulticastSocket(wake, options));
  socket->refresh();
  return socket;
}

MulticastSocket::MulticastSocket(int wake_descriptor, const MulticastOptions& options)
    : wake_(wake_descriptor), options_(options) {}

MulticastSocket::~MulticastSocket() {
  for (const auto& [key, socket] : sockets_) ::close(socket.descriptor);
  ::close(wake_);
}

void MulticastSocket::refresh() {
  std::map<Key, Joined> kept;
  for (const Membership& membership : possible_memberships(options_.loopback_only)) {
    const Key key{membership.interface, membership.v6};
    const auto known = sockets_.find(key);
    if (known != sockets_.end()) {
      kept.insert(sockets_.extract(known));
    } else if (const int fd = join(membership, options_.port); fd >= 0) {
      kept.emplace(key, Joined{fd, membership.name});
    }
  }
  kept.swap(sockets_);
  for (const auto& [key, socket] : kept) ::close(socket.descriptor);
}

std::size_t MulticastSocket::send(std::string_view datagram) {
  std::size_t taken = 0;
  for (const auto& [key, socket] : sockets_) {
    const sockaddr_in v4 = group4(options_.port);
    const sockaddr_in6 v6 = group6(options_.port, key.interface);
    const auto* to =
        key.v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
    const socklen_t to_bytes = key.v6 ? sizeof(v6) : sizeof(v4);
    const auto sent =
        ::sendto(socket.descriptor, datagram.data(), datagram.size(), MSG_NOSIGNAL, to, to_bytes);
    if (sent == static_cast<ssize_t>(datagram.size())) ++taken;
  }
  return taken;
}

void MulticastSocket::receive(TimePoint now, TimePoint deadline, const Receiver& receiver) {
  std::vector<pollfd> polled{{wake_, POLLIN, 0}};
  std::vector<const Joined*> sockets{nullptr};
  for (const auto& [key, socket] : sockets_) {
    polled.push_back({socket.descriptor, POLLIN, 0});
    sockets.push_back(&socket);
  }
  if (::poll(polled.data(), polled.size(), milliseconds_until(now, deadline)) <= 0) return;
  std::uint64_t woken = 0;
  if (polled[0].revents != 0) (void)!::read(wake_, &woken, sizeof(woken));
  for (std::size_t i = 1; i < polled.size(); ++i) {
    if (polled[i].revents != 0) receive_one(*sockets[i], receiver);
  }
}

void MulticastSocket::receive_one(const Joined& socket, const Receiver& receiver) const {
  // One byte more than allowed: what is longer is seen to be so.
  std::array<std::byte, kDatagramBytesMax + 1> buffer;
  for (int i = 0; i < kReceivedAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t from_bytes = sizeof(from);
    const auto got = ::recvfrom(socket.descriptor, buffer.data(), buffer.size(), 0,
                                reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (got < 0) return;
    const auto size = static_cast<std::size_t>(got);
    if (size <= kDatagramBytesMax) {
      receiver(std::span<const std::byte>(buffer).first(size), {address_of(from), socket.name});
    }
  }
}

void MulticastSocket::wake() {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof(one));
}

}  // namespace salvage::discovery
