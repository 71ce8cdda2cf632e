#include "gateway/api_keys.h"

#include <algorithm>
#include <cctype>

#include "base/ascii.h"
#include "base/ip_address.h"
#include "base/sha256.h"

namespace salvage::gateway {
namespace {

constexpr std::string_view kBearer = "bearer ";

// As long as the texts, wherever they differ first.
bool same_digest(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

std::string key_of(const http::HttpRequest& request) {
  const std::string_view authorization = trimmed(request.header("authorization"));
  if (authorization.size() > kBearer.size() && starts_with_ignoring_case(authorization, kBearer)) {
    return std::string(trimmed(authorization.substr(kBearer.size())));
  }
  for (const char* const name : {"x-api-key", "api-key"}) {
    const std::string_view key = trimmed(request.header(name));
    if (!key.empty()) return std::string(key);
  }
  return {};
}

std::string ApiKeys::digest_of(std::string_view key) {
  Sha256 hash;
  hash.update(key);
  return hash.hex();
}

bool is_this_machine(std::string_view peer) {
  const std::size_t begin = peer.find(':');
  const std::size_t end = peer.rfind(':');
  if (begin == std::string_view::npos || end <= begin) return false;
  std::string_view address = peer.substr(begin + 1, end - begin - 1);
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 on a socket of IPv6
  if (address.starts_with(kMapped)) address.remove_prefix(kMapped.size());
  const auto ip = parse_ip_address(address);
  return ip && is_loopback(*ip);
}

std::string ApiKeys::name_of(const http::HttpRequest& request) const {
  constexpr std::size_t kDigits = 8;
  const std::string key = key_of(request);
  if (key.empty() || !is_known(key)) return {};
  return "key-" + digest_of(key).substr(0, kDigits);
}

bool ApiKeys::may_administer(const http::HttpRequest& request) const {
  const std::string key = key_of(request);
  if (!key.empty() && is_known(key)) return true;
  return !required_ && is_this_machine(request.peer);
}

KeyCheck ApiKeys::check(const http::HttpRequest& request) const {
  const std::string key = key_of(request);
  if (key.empty()) return required_ ? KeyCheck::kMissing : KeyCheck::kGood;
  if (is_known(key)) return KeyCheck::kGood;
  return required_ ? KeyCheck::kWrong : KeyCheck::kGood;
}

bool ApiKeys::is_known(std::string_view key) const {
  const std::string digest = digest_of(key);
  bool known = false;
  for (const std::string& one : digests_) known = same_digest(one, digest) || known;
  return known;
}

}  // namespace salvage::gateway
