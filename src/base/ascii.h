#pragma once

// Letters of ASCII alike whatever their case, as protocols compare names; all other bytes are only
// themselves, whatever the locale. Pure.

#include <algorithm>
#include <string>
#include <string_view>

namespace salvage {

constexpr char ascii_lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + ('a' - 'A')) : letter;
}

inline std::string ascii_lower(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) letter = ascii_lower(letter);
  return lower;
}

inline bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return ascii_lower(x) == ascii_lower(y); });
}

inline bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return same_ignoring_case(text.substr(0, prefix.size()), prefix);
}

}  // namespace salvage
