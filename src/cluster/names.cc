#include "cluster/names.h"

#include "base/utf8.h"
#include "cluster/membership.h"

namespace salvage::cluster {
namespace {

bool plain(unsigned char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-';
}

std::size_t character_bytes(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}

// Characters that show nothing, or change how the rest is shown: C1 controls and the no-break
// space, general punctuation with its direction marks, the byte order mark, and tags.
bool invisible(std::string_view character) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (at(0) == 0xc2) return at(1) <= 0xa0;
  if (at(0) == 0xe2) return at(1) == 0x80 || at(1) == 0x81;
  if (at(0) == 0xef) return at(1) == 0xbb || at(1) == 0xbf;
  return at(0) == 0xf3;
}

}  // namespace

std::string clean_name(std::string_view wanted) {
  std::string name;
  while (!wanted.empty()) {
    const auto first = static_cast<unsigned char>(wanted[0]);
    std::size_t bytes = character_bytes(first);
    const bool whole = bytes <= wanted.size() && valid_utf8(wanted.substr(0, bytes));
    if (!whole) bytes = 1;
    const std::string_view character = wanted.substr(0, bytes);
    const bool good = whole && (bytes == 1 ? plain(first) : !invisible(character));
    const std::string_view kept = good ? character : std::string_view("-");
    if (name.size() + kept.size() > kNameBytesMax) break;
    name += kept;
    wanted.remove_prefix(bytes);
  }
  return name.find_first_not_of('-') == std::string::npos ? "node" : name;
}

std::string short_id(const NodeId& node) {
  constexpr std::size_t kShownDigits = 12;
  return node.value.substr(0, kShownDigits);
}

}  // namespace salvage::cluster
