#include "download/download_line.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/sha256.h"
#include "identity/fingerprint.h"

namespace salvage::download {
namespace {

constexpr std::string_view kRoot = "/salvage/";
constexpr std::string_view kFile = "/salvage.tar.gz";
constexpr std::size_t kInviteDigits = 16;
constexpr std::size_t kTokenDigits = 32;
constexpr std::size_t kFolderDigits = 12;  // of the archive's hash: each version has its folder
constexpr std::size_t kPlacesMax = 8;

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Numeric addresses, ports and join codes have no other characters; none means anything to a shell
// that stands inside quotes.
bool is_plain(std::string_view text) {
  constexpr std::string_view kPlain =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:[]-";
  return !text.empty() && text.find_first_not_of(kPlain) == text.npos;
}

unsigned hex_value(char digit) {
  return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char digit : hex) {
    bits = bits << 4 | hex_value(digit);
    count += 4;
    if (count < 6) continue;
    count -= 6;
    text.push_back(kAlphabet[bits >> count & 63]);
  }
  if (count > 0) text.push_back(kAlphabet[bits << (6 - count) & 63]);
  text.resize((text.size() + 3) / 4 * 4, '=');
  return text;
}

}  // namespace

std::string to_string(const DownloadPath& path) {
  return fmt::format("{}{}/{}{}", kRoot, path.invite_id, path.token, kFile);
}

std::optional<DownloadPath> parse_download_path(std::string_view path) {
  constexpr std::size_t kBytes = kRoot.size() + kInviteDigits + 1 + kTokenDigits + kFile.size();
  if (path.size() != kBytes || !path.starts_with(kRoot) || !path.ends_with(kFile)) return {};
  path.remove_prefix(kRoot.size());
  path.remove_suffix(kFile.size());
  const std::string_view invite = path.substr(0, kInviteDigits);
  const std::string_view token = path.substr(kInviteDigits + 1);
  if (path[kInviteDigits] != '/' || !is_hex(invite, kInviteDigits) ||
      !is_hex(token, kTokenDigits)) {
    return {};
  }
  return DownloadPath{std::string(invite), std::string(token)};
}

Result<std::string> public_key_pin(const NodeId& node) {
  ASSIGN_OR_RETURN(const NodeId checked, identity::parse_node_id(node.value));
  return "sha256//" + base64_of_hex(checked.value);
}

// A folder of its own for each version: nothing that runs is overwritten, and no module of another
// version is found there. Two rounds over the addresses, each going on at the byte where the one
// before was cut. The archive of an earlier try is not trusted to be whole.
Result<std::string> download_line(const DownloadOffer& offer) {
  ASSIGN_OR_RETURN(const std::string pin, public_key_pin(offer.server));
  const bool plain = !offer.places.empty() && offer.places.size() <= kPlacesMax &&
                     std::all_of(offer.places.begin(), offer.places.end(), is_plain) &&
                     is_plain(offer.join_code) && is_digest(offer.archive_sha256) &&
                     parse_download_path(to_string(offer.path)).has_value();
  if (!plain) {
    return fail(ErrorCode::kInvalidArgument,
                "no line can be made: this machine has no address that others could reach");
  }
  return fmt::format(
      "sh -c 'd=~/.local/lib/salvage-{folder}; mkdir -p ~/.local/bin \"$d\" && cd \"$d\" && "
      "rm -f salvage.tar.gz && l=\"{places}\" && for a in $l $l; do "
      "curl -gfkC - --noproxy \"*\" --connect-timeout 5 --retry 3 --pinnedpubkey {pin} "
      "-o salvage.tar.gz https://$a{path} && break; done && "
      "echo \"{sha256}  salvage.tar.gz\" | sha256sum -c && "
      "tar -xzf salvage.tar.gz --strip-components=1 && "
      "ln -sf \"$d/bin/salvage\" ~/.local/bin/salvage && exec bin/salvage join {code}'",
      fmt::arg("folder", offer.archive_sha256.substr(0, kFolderDigits)),
      fmt::arg("places", fmt::format("{}", fmt::join(offer.places, " "))), fmt::arg("pin", pin),
      fmt::arg("path", to_string(offer.path)), fmt::arg("sha256", offer.archive_sha256),
      fmt::arg("code", offer.join_code));
}

}  // namespace salvage::download
