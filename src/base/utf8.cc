#include "base/utf8.h"

#include <cstddef>

namespace salvage {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The lead byte decides how many bytes follow and what the second may be; that excludes overlong
// forms, surrogates and numbers above U+10FFFF (Unicode standard, table 3-7).
struct Lead {
  std::size_t length = 0;  // 0: no character begins with this byte
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xBF;
};

Lead classify(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

struct Scan {
  std::size_t bytes = 0;  // looked at: the character, or the ill-formed part, or all of the text
  bool complete = false;
  bool ill_formed = false;  // neither: the text ends inside a character
};

// The first character of a text that is not empty.
Scan scan(std::string_view text) {
  const Lead lead = classify(static_cast<unsigned char>(text.front()));
  if (lead.length == 0) return {1, false, true};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {i, false, false};
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? lead.second_min : 0x80;
    const unsigned char high = i == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return {i, false, true};
  }
  return {lead.length, true, false};
}

}  // namespace

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Scan next = scan(text.substr(at));
    if (!next.complete) return at;
    at += next.bytes;
  }
  return at;
}

bool valid_utf8(std::string_view text) {
  return utf8_valid_prefix(text) == text.size();
}

std::string well_formed_utf8(std::string_view text) {
  if (valid_utf8(text)) return std::string(text);
  Utf8Stream stream;
  std::string result = stream.push(text);
  result += stream.finish();
  return result;
}

std::string Utf8Stream::push(std::string_view bytes) {
  const std::string text = pending_.append(bytes);
  pending_.clear();
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const Scan next = scan(rest);
    if (!next.complete && !next.ill_formed) {
      pending_ = rest;
      break;
    }
    out += next.complete ? rest.substr(0, next.bytes) : kReplacement;
    at += next.bytes;
  }
  return out;
}

std::string Utf8Stream::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace salvage
