#include "app/host_address.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include "base/ip_address.h"

namespace salvage::app {
namespace {

constexpr std::size_t kHostBytesMax = 253;  // of a domain name
constexpr std::size_t kAddressesMax = 16;

tl::unexpected<Error> bad(std::string_view text) {
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is no address of a machine; write NAME, NAME:PORT, 10.0.0.2:7420 or "
                  "[fd00::2]:7420",
                  text.substr(0, kHostBytesMax)));
}

std::string numeric(const addrinfo& found) {
  std::array<char, NI_MAXHOST> host{};
  const int code = ::getnameinfo(found.ai_addr, found.ai_addrlen, host.data(), host.size(), nullptr,
                                 0, NI_NUMERICHOST);
  return code == 0 ? host.data() : std::string();
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text, std::uint16_t default_port) {
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return bad(text);
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':'));
  }
  const auto odd = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '/'; };
  if (host.empty() || host.size() > kHostBytesMax || std::any_of(host.begin(), host.end(), odd)) {
    return bad(text);
  }
  HostPort place{std::string(host), default_port};
  if (port.empty()) return place;
  const char* end = port.data() + port.size();
  const auto [after, error] = std::from_chars(port.data() + 1, end, place.port);
  if (port.front() != ':' || error != std::errc() || after != end || place.port == 0) {
    return bad(text);
  }
  return place;
}

Result<std::vector<std::string>> resolve_host(const HostPort& place) {
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int code = ::getaddrinfo(place.host.c_str(), nullptr, &wish, &first);
  if (code != 0) {
    return fail(ErrorCode::kUnavailable, fmt::format("the machine '{}' is not known here: {}",
                                                     place.host, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(first, &::freeaddrinfo);
  std::vector<std::string> endpoints;
  for (const addrinfo* one = first; one != nullptr && endpoints.size() < kAddressesMax;
       one = one->ai_next) {
    const std::string address = numeric(*one);
    if (address.empty()) continue;
    endpoints.push_back(one->ai_family == AF_INET6 ? fmt::format("tls:[{}]:{}", address, place.port)
                                                   : fmt::format("tls:{}:{}", address, place.port));
  }
  return endpoints;
}

}  // namespace salvage::app
