// Any text: it is refused, or reads as a code that, written again, is the same code, and the text
// is the written one but for case, separators and confusable letters. Since the checksum stops
// nearly everything, the bytes are also tried as the contents of a code that has a right one.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "identity/base32.h"
#include "identity/join_code.h"

using namespace salvage;

namespace {

void check(std::string_view text) {
  const auto code = identity::parse_join_code(text);
  if (!code) {
    if (code.error().code() != ErrorCode::kInvalidArgument) std::abort();
    return;
  }
  if (code->addresses.size() > identity::kJoinAddressesMax) std::abort();
  const auto written = identity::encode_join_code(*code);
  if (!written) std::abort();
  const auto again = identity::parse_join_code(*written);
  if (!again || !(*again == *code)) std::abort();
  const auto read = identity::base32_decode(text.substr(text.find('.') + 1));
  if (!read || identity::base32_encode(*read) != written->substr(5)) std::abort();
}

int hex_value(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check(bytes);
  Sha256 digest;
  digest.update(bytes);
  const std::string hex = digest.hex();
  std::string summed = bytes;
  for (std::size_t i = 0; i < 8; i += 2) {
    summed.push_back(static_cast<char>(hex_value(hex[i]) << 4 | hex_value(hex[i + 1])));
  }
  check("slv1." + identity::base32_encode(summed));
  return 0;
}
