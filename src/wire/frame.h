#pragma once

// The frame: a fixed header, a body, raw tensor data. docs/wire.md is the specification.
// Pure functions on bytes: no sockets, no threads, no clock. What a peer sent never reaches a
// CHECK; it yields `corrupt` (the bytes don't check out) or `unsupported` (a version we don't
// speak).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "wire/limits.h"

namespace salvage::wire {

// Version N speaks to N-1: it reads both and writes the lower of its own and its peer's (the Hello
// says which). The header's layout never changes, so that any version can refuse any other by name.
// Version 2 added the cluster's messages and the fields of load_stage that lead to other machines.
inline constexpr std::uint16_t kWireVersion = 2;
inline constexpr std::uint16_t kWireVersionMin = 1;

// "SLVG" in the order of the bytes on the wire.
inline constexpr std::uint32_t kMagic = 0x47564C53;
inline constexpr std::size_t kFrameHeaderBytes = 48;

enum class FrameType : std::uint8_t {
  // Control frames, CBOR body (wire/control.h).
  kHello = 1,
  kHelloReply = 2,
  kLoadStage = 3,
  kStageLoaded = 4,
  kStageFailed = 5,
  kStatsRequest = 6,
  kStats = 7,
  kPing = 8,
  kPong = 9,
  kProgress = 10,
  kUnload = 11,
  kShutdown = 12,
  // Between agents and their coordinator, CBOR body (wire/cluster.h).
  kJoinRequest = 13,
  kJoinReply = 14,
  kNodeFacts = 15,
  kNodeStatus = 16,
  kClusterView = 17,
  kMemberRequest = 18,
  kMemberReply = 19,
  kInventory = 20,
  kFetchOrder = 21,
  kFetchProgress = 22,
  kStartStage = 23,
  kStageListening = 24,
  kBlobRequest = 25,
  // Data frames, fixed layout (wire/micro_batch.h, wire/step_result.h, wire/skip.h).
  kMicroBatch = 32,
  kStepResult = 33,
  kCredit = 34,
  kSkip = 35,
  // CBOR body and data.
  kBlobReply = 48,
};

// "hello", "micro_batch", ...; empty for a number that this version does not know.
std::string_view frame_type_name(FrameType type);

// Data frames have a fixed layout and larger limits.
constexpr bool is_data_frame(FrameType type) {
  return static_cast<std::uint8_t>(type) >= 32 && type != FrameType::kBlobReply;
}
constexpr std::uint32_t body_bytes_max(FrameType type) {
  return is_data_frame(type) ? kDataBodyBytesMax : kControlBodyBytesMax;
}
// Of the data section; 0 for frames that have none.
constexpr std::uint64_t data_bytes_max(FrameType type) {
  if (type == FrameType::kBlobReply) return kBlobBytesMax;
  return is_data_frame(type) ? kDataBytesMax : 0;
}

struct FrameHeader {
  // The lowest until a hello_reply has said more: whoever reads a hello may be older.
  std::uint16_t version = kWireVersionMin;
  FrameType type = FrameType::kPing;
  std::uint8_t flags = 0;  // None is defined in version 1; a reader ignores them.
  PlanEpoch epoch;
  StepId step;
  std::uint64_t data_bytes = 0;
  std::uint32_t body_bytes = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of body and data, one after the other.
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

FrameHeaderBytes encode_header(const FrameHeader& header);

// Checks magic, header check, version, type and both lengths, so that nothing larger than a named
// limit is ever read or allocated on the word of a peer. hello and hello_reply are read in whatever
// version they come: the versions that they name are compared afterwards (wire/control.h), and each
// side hears of both.
Result<FrameHeader> decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes);

std::uint64_t payload_checksum(std::span<const std::byte> body, std::span<const std::byte> data);

// `corrupt`, naming the frame, unless body and data are the ones that the header was made for.
Result<void> verify_payload(const FrameHeader& header, std::span<const std::byte> body,
                            std::span<const std::byte> data);

}  // namespace salvage::wire
