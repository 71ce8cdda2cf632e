#include "api/quote.h"

#include <algorithm>

#include "api/limits.h"
#include "base/utf8.h"

namespace salvage::api {

std::string in_quotes(std::string_view text) {
  std::string shown(text.substr(0, kQuotedBytesMax));
  const bool is_cut = shown.size() < text.size();
  shown.resize(utf8_valid_prefix(shown));
  std::replace_if(
      shown.begin(), shown.end(),
      [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f || c == '"'; }, '?');
  return '"' + shown + (is_cut ? "...\"" : "\"");
}

}  // namespace salvage::api
