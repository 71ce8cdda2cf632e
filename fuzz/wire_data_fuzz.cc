// Any bytes as the body of a data frame: refused, or accepted and then the same after another round
// of encode and decode. The first byte chooses the message; objects are reused as they are in the
// program, so that leftovers of one input would show in the next.

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "wire/micro_batch.h"
#include "wire/skip.h"
#include "wire/step_result.h"

using namespace salvage::wire;

namespace {

template <typename Message>
void check(FrameHeader header, std::span<const std::byte> body, Message& message, Message& again) {
  if (!decode(header, body, message)) return;
  std::vector<std::byte> encoded;
  if (!encode(message, encoded)) std::abort();
  if (encoded.size() != body.size()) std::abort();
  if (!decode(header, encoded, again)) std::abort();
  // Bits, not values: a NaN logit is equal to itself here.
  std::vector<std::byte> twice;
  if (!encode(again, twice) || twice != encoded) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MicroBatch batch, batch_again;
  static StepResult result, result_again;
  static Credit credit, credit_again;
  static Skip skip, skip_again;
  if (size < 9) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  FrameHeader header;
  std::memcpy(&header.data_bytes, data + 1, 8);
  const auto body = bytes.subspan(9);
  switch (data[0] % 4) {
    case 0:
      check(header, body, batch, batch_again);
      break;
    case 1:
      check(header, body, result, result_again);
      break;
    case 2:
      check(header, body, credit, credit_again);
      break;
    case 3:
      check(header, body, skip, skip_again);
      break;
  }
  return 0;
}
