#include "identity/base32.h"

#include <cstdint>

#include <fmt/format.h>

#include "base/ascii.h"

namespace salvage::identity {
namespace {

constexpr std::string_view kAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr unsigned kBitsPerCharacter = 5;

bool is_separator(char c) {
  return c == '-' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// -1 for a character that is no digit of ours.
int value_of(char c) {
  c = ascii_lower(c);
  if (c == 'i' || c == 'l') return 1;
  if (c == 'o') return 0;
  const std::size_t at = kAlphabet.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

tl::unexpected<Error> bad_character(char c) {
  const bool printable = c > ' ' && c < '\x7f';
  return fail(ErrorCode::kInvalidArgument,
              printable ? fmt::format("it holds '{}', which no code has", c)
                        : fmt::format("it holds a byte {:#04x}, which no code has",
                                      static_cast<unsigned char>(c)));
}

}  // namespace

std::string base32_encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() * 8 + kBitsPerCharacter - 1) / kBitsPerCharacter);
  std::uint32_t bits = 0;
  unsigned bit_count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    bit_count += 8;
    while (bit_count >= kBitsPerCharacter) {
      bit_count -= kBitsPerCharacter;
      text.push_back(kAlphabet[bits >> bit_count & 31]);
    }
    bits &= (1U << bit_count) - 1;
  }
  if (bit_count > 0) text.push_back(kAlphabet[bits << (kBitsPerCharacter - bit_count) & 31]);
  return text;
}

Result<std::string> base32_decode(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() * kBitsPerCharacter / 8);
  std::uint32_t bits = 0;
  unsigned bit_count = 0;
  for (const char c : text) {
    if (is_separator(c)) continue;
    const int value = value_of(c);
    if (value < 0) return bad_character(c);
    bits = bits << kBitsPerCharacter | static_cast<std::uint32_t>(value);
    bit_count += kBitsPerCharacter;
    if (bit_count >= 8) {
      bit_count -= 8;
      bytes.push_back(static_cast<char>(bits >> bit_count));
      bits &= (1U << bit_count) - 1;
    }
  }
  // What is left over is padding: zeros, and less than a character of them.
  if (bits != 0 || bit_count >= kBitsPerCharacter) {
    return fail(ErrorCode::kInvalidArgument, "it ends in the middle of a byte");
  }
  return bytes;
}

}  // namespace salvage::identity
