#include "transport/frame_io.h"

#include <fmt/format.h>

namespace salvage::transport {

Result<wire::FrameHeaderBytes> make_header(const OutgoingFrame& frame) {
  const bool data_frame = wire::is_data_frame(frame.type);
  const std::size_t body_max = data_frame ? wire::kDataBodyBytesMax : wire::kControlBodyBytesMax;
  const std::uint64_t data_max = data_frame ? wire::kDataBytesMax : 0;
  if (frame.body.size() > body_max || frame.data.size() > data_max) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a {} frame of {} + {} bytes is over the limit",
                    wire::frame_type_name(frame.type), frame.body.size(), frame.data.size()));
  }
  wire::FrameHeader header;
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
