#pragma once

// What every Connection does around its bytes: making the header of a frame that leaves, and
// keeping the two steps of receiving (head, then data) in order.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/transport.h"

namespace salvage::transport {

// Checks the lengths against the wire's limits and fills in header and checksum.
Result<wire::FrameHeaderBytes> make_header(const OutgoingFrame& frame, std::uint16_t wire_version);

// Sits between frames, or between the head and the data of one. One receiver thread.
class FrameAssembly {
 public:
  // Fails with `internal` while data of the last frame waits to be taken.
  Result<void> expect_head() const;
  // The head has arrived; a frame without data is verified at once.
  Result<void> head_arrived(const IncomingFrame& frame);

  std::uint64_t data_bytes() const { return header_.data_bytes; }
  Result<void> expect_data(std::size_t buffer_bytes) const;
  Result<void> data_arrived(std::span<const std::byte> data);
  // Nobody wanted it; what was not looked at needs no check.
  void data_skipped() { data_waits_ = false; }

 private:
  wire::FrameHeader header_;
  std::vector<std::byte> body_;  // kept until the data is in: the checksum covers both
  bool data_waits_ = false;
};

}  // namespace salvage::transport
