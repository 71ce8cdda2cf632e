#include "http/web_origin.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/ascii.h"
#include "base/ip_address.h"

namespace salvage::http {
namespace {

// Never in the public DNS: RFC 6761, 6762, 8375 and ICANN's .internal; .lan is many a router's.
constexpr std::array<std::string_view, 5> kHomeSuffixes{".localhost", ".local", ".lan",
                                                        ".home.arpa", ".internal"};

// "[::1]:8765" -> "::1", "attic:8765" -> "attic".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

bool has_foreign_origin(const HttpRequest& request) {
  const std::string origin = ascii_lower(request.header("origin"));
  if (origin == "null") return true;  // a page in a sandbox, or from a file
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    return origin.substr(scheme.size()) != ascii_lower(request.header("host"));
  }
  return false;
}

bool has_foreign_host(const HttpRequest& request) {
  const std::string host = ascii_lower(request.header("host"));
  std::string_view name = without_port(host);
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.find('.') == std::string_view::npos || parse_ip_address(name)) return false;
  return std::none_of(kHomeSuffixes.begin(), kHomeSuffixes.end(),
                      [name](std::string_view suffix) { return name.ends_with(suffix); });
}

}  // namespace salvage::http
