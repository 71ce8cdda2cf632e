// Any bytes as the body of each control message: refused, or accepted and then stable.

#include <cstdint>
#include <cstdlib>

#include "wire/cluster_fields.h"

using namespace salvage::wire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const auto body = std::as_bytes(std::span(data, size)).subspan(1);
  int index = 0;
  visit_all_messages([&]<typename Message>(Of<Message>) {
    if (index++ != data[0] % 26) return;
    const auto message = decode_control<Message>(body);
    if (!message) return;
    if (describe(*message).empty()) std::abort();
    std::vector<std::byte> encoded;
    if (!encode_control(*message, encoded)) std::abort();
    const auto again = decode_control<Message>(encoded);
    std::vector<std::byte> twice;
    if (!again || !encode_control(*again, twice) || twice != encoded) std::abort();
  });
  return 0;
}
