#include "transport/tcp/socket_address.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "base/ip_address.h"
#include "transport/tcp/socket.h"

namespace salvage::transport {
namespace {

template <typename Part>
SocketAddress stored(const Part& part) {
  static_assert(sizeof(part) <= sizeof(sockaddr_storage));
  SocketAddress address;
  std::memcpy(&address.storage, &part, sizeof(part));
  address.bytes = sizeof(part);
  return address;
}

tl::unexpected<Error> bad(const Endpoint& endpoint) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is no address of a socket", to_string(endpoint)));
}

Result<SocketAddress> unix_address(const Endpoint& endpoint) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (endpoint.path.empty() || endpoint.path.size() >= sizeof(address.sun_path)) {
    return bad(endpoint);
  }
  std::memcpy(address.sun_path, endpoint.path.c_str(), endpoint.path.size() + 1);
  return stored(address);
}

// The number of an interface, by name or as the number that it may be written as.
Result<std::uint32_t> scope_of(const Endpoint& endpoint, const std::string& zone) {
  if (const unsigned index = ::if_nametoindex(zone.c_str()); index != 0) return index;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(zone.data(), zone.data() + zone.size(), number);
  if (error == std::errc() && end == zone.data() + zone.size()) return number;
  return fail(ErrorCode::kUnavailable, fmt::format("{}: this machine has no network interface {}",
                                                   to_string(endpoint), zone));
}

Result<SocketAddress> ip_address(const Endpoint& endpoint) {
  const std::size_t percent = std::min(endpoint.address.find('%'), endpoint.address.size());
  const auto parsed = parse_ip_address(endpoint.address.substr(0, percent));
  const bool v6 = endpoint.kind == EndpointKind::kTcp6 || endpoint.kind == EndpointKind::kTls6;
  if (!parsed || parsed->v6 != v6) return bad(endpoint);
  if (!v6) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint.port);
    std::memcpy(&address.sin_addr, parsed->bytes.data(), sizeof(address.sin_addr));
    return stored(address);
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(endpoint.port);
  std::memcpy(&address.sin6_addr, parsed->bytes.data(), sizeof(address.sin6_addr));
  if (percent < endpoint.address.size()) {
    ASSIGN_OR_RETURN(address.sin6_scope_id,
                     scope_of(endpoint, endpoint.address.substr(percent + 1)));
  }
  return stored(address);
}

// IPv4 inside IPv6: ten bytes 0, two bytes 255.
bool is_mapped(const std::array<std::uint8_t, 16>& bytes) {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](auto byte) { return byte == 0; }) &&
         bytes[10] == 0xFF && bytes[11] == 0xFF;
}

std::string with_zone(std::string address, std::uint32_t scope) {
  if (scope == 0) return address;
  std::array<char, IF_NAMESIZE> name{};
  const bool named = ::if_indextoname(scope, name.data()) != nullptr;
  return address + "%" + (named ? std::string(name.data()) : std::to_string(scope));
}

Endpoint endpoint_of(const sockaddr_storage& storage) {
  Endpoint endpoint;
  IpAddress ip;
  std::uint32_t scope = 0;
  if (storage.ss_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, &storage, sizeof(address));
    std::memcpy(ip.bytes.data(), &address.sin_addr, sizeof(address.sin_addr));
    endpoint.port = ntohs(address.sin_port);
  } else {
    sockaddr_in6 address{};
    std::memcpy(&address, &storage, sizeof(address));
    std::memcpy(ip.bytes.data(), &address.sin6_addr, sizeof(address.sin6_addr));
    endpoint.port = ntohs(address.sin6_port);
    scope = address.sin6_scope_id;
    ip.v6 = !is_mapped(ip.bytes);
    if (!ip.v6) std::copy(ip.bytes.begin() + 12, ip.bytes.end(), ip.bytes.begin());
  }
  endpoint.kind = ip.v6 ? EndpointKind::kTls6 : EndpointKind::kTls4;
  endpoint.address = with_zone(salvage::to_string(ip), ip.v6 ? scope : 0);
  return endpoint;
}

}  // namespace

Result<SocketAddress> socket_address(const Endpoint& endpoint) {
  return endpoint.kind == EndpointKind::kUnix ? unix_address(endpoint) : ip_address(endpoint);
}

Result<Endpoint> local_endpoint(int fd, const Endpoint& wanted) {
  Endpoint endpoint = wanted;
  if (endpoint.kind == EndpointKind::kUnix) return endpoint;
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) {
    return fail(system_error("getsockname", errno));
  }
  endpoint.port = endpoint_of(storage).port;
  return endpoint;
}

Result<Endpoint> peer_endpoint(int fd) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) {
    return fail(system_error("ask who is at the other end", errno));
  }
  return endpoint_of(storage);
}

}  // namespace salvage::transport
