#include "transport/endpoint.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <arpa/inet.h>
#include <fmt/format.h>

namespace salvage::transport {
namespace {

// sockaddr_un::sun_path, less the terminating zero.
constexpr std::size_t kUnixPathBytesMax = 107;

tl::unexpected<Error> bad(std::string_view text, std::string_view why) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is no endpoint: {} (expected unix:/path, tcp:127.0.0.1:port or "
                          "tcp:[::1]:port)",
                          text, why));
}

Result<std::uint16_t> parse_port(std::string_view text, std::string_view port) {
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return bad(text, "the port must be a number from 0 to 65535");
  }
  return number;
}

Result<Endpoint> parse_unix(std::string_view text, std::string_view path) {
  if (path.empty() || path.front() != '/') return bad(text, "the path must be absolute");
  if (path.size() > kUnixPathBytesMax) {
    return bad(text, fmt::format("the path has {} bytes, a socket's may have {}", path.size(),
                                 kUnixPathBytesMax));
  }
  Endpoint endpoint;
  endpoint.kind = EndpointKind::kUnix;
  endpoint.path = path;
  return endpoint;
}

// The canonical form of a numeric address, or nothing: names are not resolved.
std::string canonical_address(int family, const std::string& host) {
  in6_addr address{};  // Large enough for either family.
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_pton(family, host.c_str(), &address) != 1) return {};
  if (::inet_ntop(family, &address, text.data(), text.size()) == nullptr) return {};
  return text.data();
}

Result<Endpoint> parse_tcp(std::string_view text, std::string_view rest) {
  const bool bracketed = !rest.empty() && rest.front() == '[';
  const std::size_t host_end = bracketed ? rest.find(']') : rest.find(':');
  if (host_end == std::string_view::npos) return bad(text, "the port is missing");
  const std::string host(bracketed ? rest.substr(1, host_end - 1) : rest.substr(0, host_end));
  if (host.empty()) return bad(text, "the host is missing");
  const std::string_view after = rest.substr(bracketed ? host_end + 1 : host_end);
  if (after.empty() || after.front() != ':') return bad(text, "the port is missing");
  ASSIGN_OR_RETURN(const std::uint16_t port, parse_port(text, after.substr(1)));

  const std::string address = canonical_address(bracketed ? AF_INET6 : AF_INET, host);
  if (address.empty()) return bad(text, "the host must be a numeric address");
  const bool loopback = bracketed ? address == "::1" : address.starts_with("127.");
  if (!loopback) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is not on this machine: this version links stages over Unix "
                            "sockets and loopback only",
                            text));
  }
  Endpoint endpoint;
  endpoint.kind = bracketed ? EndpointKind::kTcp6 : EndpointKind::kTcp4;
  endpoint.address = address;
  endpoint.port = port;
  return endpoint;
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  const bool clean = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != ',' && c != '\x7f';
  });
  if (!clean) return bad(text, "it holds a space, a comma or a control character");
  if (text.starts_with("unix:")) return parse_unix(text, text.substr(5));
  if (text.starts_with("tcp:")) return parse_tcp(text, text.substr(4));
  return bad(text, "it must begin with unix: or tcp:");
}

Result<std::vector<Endpoint>> parse_endpoints(std::string_view text) {
  std::vector<Endpoint> endpoints;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    if (item.empty()) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("item {} of the endpoint list '{}' is empty", endpoints.size() + 1, text));
    }
    ASSIGN_OR_RETURN(endpoints.emplace_back(), parse_endpoint(item));
    begin = end + 1;
  }
  return endpoints;
}

std::string to_string(const Endpoint& endpoint) {
  switch (endpoint.kind) {
    case EndpointKind::kUnix:
      return "unix:" + endpoint.path;
    case EndpointKind::kTcp4:
      return fmt::format("tcp:{}:{}", endpoint.address, endpoint.port);
    case EndpointKind::kTcp6:
      return fmt::format("tcp:[{}]:{}", endpoint.address, endpoint.port);
  }
  return {};
}

}  // namespace salvage::transport
