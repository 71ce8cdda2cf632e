#include "transport/endpoint.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/ip_address.h"

namespace salvage::transport {
namespace {

// sockaddr_un::sun_path, less the terminating zero.
constexpr std::size_t kUnixPathBytesMax = 107;
constexpr std::size_t kInterfaceBytesMax = 15;  // IFNAMSIZ, less the terminating zero
constexpr std::size_t kNodeIdDigits = 64;

tl::unexpected<Error> bad(std::string_view text, std::string_view why) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is no endpoint: {} (expected unix:/path, tcp:127.0.0.1:port, "
                          "tcp:[::1]:port, tls:address:port or tls:[address]:port)",
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

struct HostAndPort {
  bool bracketed = false;
  std::string_view host;
  std::uint16_t port = 0;
};

Result<HostAndPort> split_port(std::string_view text, std::string_view rest) {
  HostAndPort split;
  split.bracketed = !rest.empty() && rest.front() == '[';
  const std::size_t host_end = split.bracketed ? rest.find(']') : rest.find(':');
  if (host_end == std::string_view::npos) return bad(text, "the port is missing");
  split.host = split.bracketed ? rest.substr(1, host_end - 1) : rest.substr(0, host_end);
  if (split.host.empty()) return bad(text, "the host is missing");
  const std::string_view after = rest.substr(split.bracketed ? host_end + 1 : host_end);
  if (after.empty() || after.front() != ':') return bad(text, "the port is missing");
  ASSIGN_OR_RETURN(split.port, parse_port(text, after.substr(1)));
  return split;
}

// The canonical form of a numeric address of the right family, or nothing: names aren't resolved.
std::string canonical_address(bool v6, std::string_view host) {
  const auto address = parse_ip_address(host);
  return address && address->v6 == v6 ? salvage::to_string(*address) : std::string();
}

Result<Endpoint> parse_tcp(std::string_view text, std::string_view rest) {
  ASSIGN_OR_RETURN(const HostAndPort split, split_port(text, rest));
  Endpoint endpoint;
  endpoint.kind = split.bracketed ? EndpointKind::kTcp6 : EndpointKind::kTcp4;
  endpoint.address = canonical_address(split.bracketed, split.host);
  endpoint.port = split.port;
  if (endpoint.address.empty()) return bad(text, "the host must be a numeric address");
  const bool loopback =
      split.bracketed ? endpoint.address == "::1" : endpoint.address.starts_with("127.");
  if (loopback) return endpoint;
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' is not on this machine: plaintext never leaves it; links to other "
                          "machines are tls:",
                          text));
}

// "%eth0" or "%2": which of the machine's links a link-local address is on.
Result<std::string> parse_zone(std::string_view text, std::string_view zone) {
  const bool right = zone.size() > 1 && zone.size() <= kInterfaceBytesMax + 1 &&
                     zone.find_first_of("%/[]", 1) == std::string_view::npos;
  if (!right) return bad(text, "what follows % must be a network interface");
  return std::string(zone);
}

Result<NodeId> parse_node(std::string_view text, std::string_view digits) {
  const bool hex = std::all_of(digits.begin(), digits.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (!hex || digits.size() != kNodeIdDigits) {
    return bad(text, "what follows / must be a node id of 64 lower-case hex digits");
  }
  return NodeId{std::string(digits)};
}

Result<Endpoint> parse_tls(std::string_view text, std::string_view rest) {
  Endpoint endpoint;
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    ASSIGN_OR_RETURN(endpoint.node, parse_node(text, rest.substr(slash + 1)));
    rest = rest.substr(0, slash);
  }
  ASSIGN_OR_RETURN(const HostAndPort split, split_port(text, rest));
  std::string zone;
  const std::size_t percent = std::min(split.host.find('%'), split.host.size());
  if (split.bracketed && percent < split.host.size()) {
    ASSIGN_OR_RETURN(zone, parse_zone(text, split.host.substr(percent)));
  }
  const std::string_view host = zone.empty() ? split.host : split.host.substr(0, percent);
  endpoint.kind = split.bracketed ? EndpointKind::kTls6 : EndpointKind::kTls4;
  endpoint.address = canonical_address(split.bracketed, host);
  endpoint.port = split.port;
  if (endpoint.address.empty()) return bad(text, "the host must be a numeric address");
  endpoint.address += zone;
  return endpoint;
}

std::string with_node(std::string text, const NodeId& node) {
  if (!node.value.empty()) text.append("/").append(node.value);
  return text;
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  const bool clean = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != ',' && c != '\x7f';
  });
  if (!clean) return bad(text, "it holds a space, a comma or a control character");
  if (text.starts_with("unix:")) return parse_unix(text, text.substr(5));
  if (text.starts_with("tcp:")) return parse_tcp(text, text.substr(4));
  if (text.starts_with("tls:")) return parse_tls(text, text.substr(4));
  return bad(text, "it must begin with unix:, tcp: or tls:");
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
    case EndpointKind::kTls4:
      return with_node(fmt::format("tls:{}:{}", endpoint.address, endpoint.port), endpoint.node);
    case EndpointKind::kTls6:
      return with_node(fmt::format("tls:[{}]:{}", endpoint.address, endpoint.port), endpoint.node);
  }
  return {};
}

}  // namespace salvage::transport
