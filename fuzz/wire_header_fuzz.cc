// Any 48 bytes: the header is refused, or says the same when it is written again (but for the flags
// and the checksum, which every value may have).

#include <cstdint>
#include <cstdlib>

#include "wire/frame.h"

using namespace salvage::wire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kFrameHeaderBytes) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto raw = decode_header(bytes.first<kFrameHeaderBytes>());

  // The header check stops nearly everything, so the fields are tried with a right one, too.
  FrameHeader header;
  header.type = static_cast<FrameType>(data[6]);
  header.flags = data[7];
  header.version = data[4];
  for (std::size_t i = 0; i < 8; ++i) {
    header.epoch.value = header.epoch.value << 8 | data[8 + i];
    header.step.value = header.step.value << 8 | data[16 + i];
    header.data_bytes = header.data_bytes << 8 | data[24 + i];
    header.checksum = header.checksum << 8 | data[40 + i];
  }
  for (std::size_t i = 0; i < 4; ++i) header.body_bytes = header.body_bytes << 8 | data[32 + i];
  const auto decoded = decode_header(encode_header(header));
  if (decoded && !(*decoded == header)) std::abort();
  if (decoded && decoded->data_bytes > kDataBytesMax) std::abort();
  if (raw && frame_type_name(raw->type).empty()) std::abort();
  return 0;
}
