#pragma once

// Text leaves the program in whole characters. A model's tokens are bytes: an emoji may come in
// four pieces, and a byte-fallback token may be no character at all. Utf8Stream holds back what is
// not complete yet and turns what never will be into U+FFFD.

#include <string>
#include <string_view>

namespace salvage {

// Well-formed by the Unicode standard: no overlong forms, surrogates, or anything above U+10FFFF.
bool valid_utf8(std::string_view text);

// Position of the first byte that is not part of well-formed text; text.size() if all is.
std::size_t utf8_valid_prefix(std::string_view text);

// `text` with each maximal ill-formed part replaced by one U+FFFD.
std::string well_formed_utf8(std::string_view text);

// Not thread safe; one a stream.
class Utf8Stream {
 public:
  // The characters that are complete now. Each maximal part of an ill-formed sequence becomes one
  // U+FFFD, as the Unicode standard recommends.
  std::string push(std::string_view bytes);

  // At the end: a character that was never completed becomes one U+FFFD.
  std::string finish();

 private:
  std::string pending_;  // 0 to 3 bytes: the beginning of a character
};

}  // namespace salvage
