#pragma once

// Cuts the parts of a frame into TLS records: small neighbours are gathered into one reused buffer,
// so that a frame of at most one record is one record, and large parts are borrowed where they lie.
// Pure; one thread. A frame of 48 + 60 + 16,384 bytes becomes a gathered record of 16,384 and a
// borrowed one of 108.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace salvage::transport {

inline constexpr std::size_t kRecordBytes = 16384;  // the most that a TLS record holds

class RecordCutter {
 public:
  using Bytes = std::span<const std::byte>;

  // The bytes stay where they are until the last record was taken.
  void begin(const std::array<Bytes, 3>& parts);
  bool empty() const { return left_.empty(); }
  // Valid until the next call. Must not be called when empty.
  Bytes next();

 private:
  void drop_empty_parts();

  std::array<Bytes, 3> parts_;
  std::span<Bytes> left_;  // of parts_
  std::vector<std::byte> gathered_;
};

}  // namespace salvage::transport
