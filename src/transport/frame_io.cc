#include "transport/frame_io.h"

#include <fmt/format.h>

namespace salvage::transport {

Result<wire::FrameHeaderBytes> make_header(const OutgoingFrame& frame, std::uint16_t wire_version) {
  if (frame.body.size() > wire::body_bytes_max(frame.type) ||
      frame.data.size() > wire::data_bytes_max(frame.type)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a {} frame of {} + {} bytes is over the limit",
                    wire::frame_type_name(frame.type), frame.body.size(), frame.data.size()));
  }
  wire::FrameHeader header;
  header.version = wire_version;
  header.type = frame.type;
  header.epoch = frame.epoch;
  header.step = frame.step;
  header.body_bytes = static_cast<std::uint32_t>(frame.body.size());
  header.data_bytes = frame.data.size();
  header.checksum = wire::payload_checksum(frame.body, frame.data);
  return wire::encode_header(header);
}

Result<void> FrameAssembly::expect_head() const {
  if (data_waits_) {
    return fail(ErrorCode::kInternal, "the data of the last frame was not taken");
  }
  return {};
}

Result<void> FrameAssembly::head_arrived(const IncomingFrame& frame) {
  header_ = frame.header;
  data_waits_ = header_.data_bytes > 0;
  if (!data_waits_) return wire::verify_payload(header_, frame.body, {});
  body_.assign(frame.body.begin(), frame.body.end());
  return {};
}

Result<void> FrameAssembly::expect_data(std::size_t buffer_bytes) const {
  if (!data_waits_) return fail(ErrorCode::kInternal, "no frame is waiting for its data");
  if (buffer_bytes != header_.data_bytes) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a buffer of {} bytes for {} bytes of data", buffer_bytes, header_.data_bytes));
  }
  return {};
}

Result<void> FrameAssembly::data_arrived(std::span<const std::byte> data) {
  data_waits_ = false;
  return wire::verify_payload(header_, body_, data);
}

}  // namespace salvage::transport
