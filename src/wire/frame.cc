#include "wire/frame.h"

#include <fmt/format.h>

#include "wire/bytes.h"
#include "wire/xxh3.h"

namespace salvage::wire {
namespace {

// Where each field of the header stands; docs/wire.md has the same table.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kTypeAt = 6;
constexpr std::size_t kFlagsAt = 7;
constexpr std::size_t kEpochAt = 8;
constexpr std::size_t kStepAt = 16;
constexpr std::size_t kDataBytesAt = 24;
constexpr std::size_t kBodyBytesAt = 32;
constexpr std::size_t kHeaderCheckAt = 36;
constexpr std::size_t kChecksumAt = 40;
static_assert(kChecksumAt + sizeof(FrameHeader::checksum) == kFrameHeaderBytes);
static_assert(kHeaderCheckAt + sizeof(std::uint32_t) == kChecksumAt);

std::uint32_t header_check(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  return static_cast<std::uint32_t>(xxh3(bytes.first<kHeaderCheckAt>()));
}

// A machine of any version must be able to say what it is, and be told why it isn't let in.
bool is_for_every_version(FrameType type) {
  return type == FrameType::kHello || type == FrameType::kHelloReply;
}

Result<void> check_lengths(const FrameHeader& header) {
  const std::uint32_t body_max = body_bytes_max(header.type);
  if (header.body_bytes > body_max) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} frame announces a body of {} bytes, the limit is {}",
                            frame_type_name(header.type), header.body_bytes, body_max));
  }
  const std::uint64_t data_max = data_bytes_max(header.type);
  if (header.data_bytes > data_max) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} frame announces {} bytes of data, the limit is {}",
                            frame_type_name(header.type), header.data_bytes, data_max));
  }
  return {};
}

}  // namespace

std::string_view frame_type_name(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return "hello";
    case FrameType::kHelloReply:
      return "hello_reply";
    case FrameType::kLoadStage:
      return "load_stage";
    case FrameType::kStageLoaded:
      return "stage_loaded";
    case FrameType::kStageFailed:
      return "stage_failed";
    case FrameType::kStatsRequest:
      return "stats_request";
    case FrameType::kStats:
      return "stats";
    case FrameType::kPing:
      return "ping";
    case FrameType::kPong:
      return "pong";
    case FrameType::kProgress:
      return "progress";
    case FrameType::kUnload:
      return "unload";
    case FrameType::kShutdown:
      return "shutdown";
    case FrameType::kJoinRequest:
      return "join_request";
    case FrameType::kJoinReply:
      return "join_reply";
    case FrameType::kNodeFacts:
      return "node_facts";
    case FrameType::kNodeStatus:
      return "node_status";
    case FrameType::kClusterView:
      return "cluster_view";
    case FrameType::kMemberRequest:
      return "member_request";
    case FrameType::kMemberReply:
      return "member_reply";
    case FrameType::kInventory:
      return "inventory";
    case FrameType::kFetchOrder:
      return "fetch_order";
    case FrameType::kFetchProgress:
      return "fetch_progress";
    case FrameType::kStartStage:
      return "start_stage";
    case FrameType::kStageListening:
      return "stage_listening";
    case FrameType::kBlobRequest:
      return "blob_request";
    case FrameType::kBlobReply:
      return "blob_reply";
    case FrameType::kMicroBatch:
      return "micro_batch";
    case FrameType::kStepResult:
      return "step_result";
    case FrameType::kSkip:
      return "skip";
    case FrameType::kCredit:
      return "credit";
  }
  return {};
}

FrameHeaderBytes encode_header(const FrameHeader& header) {
  FrameHeaderBytes bytes{};
  store(&bytes[kMagicAt], kMagic);
  store(&bytes[kVersionAt], header.version);
  store(&bytes[kTypeAt], static_cast<std::uint8_t>(header.type));
  store(&bytes[kFlagsAt], header.flags);
  store(&bytes[kEpochAt], header.epoch.value);
  store(&bytes[kStepAt], header.step.value);
  store(&bytes[kDataBytesAt], header.data_bytes);
  store(&bytes[kBodyBytesAt], header.body_bytes);
  store(&bytes[kHeaderCheckAt], header_check(bytes));
  store(&bytes[kChecksumAt], header.checksum);
  return bytes;
}

Result<FrameHeader> decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  if (load<std::uint32_t>(&bytes[kMagicAt]) != kMagic) {
    return fail(ErrorCode::kCorrupt, "the peer does not speak salvage's wire format");
  }
  if (load<std::uint32_t>(&bytes[kHeaderCheckAt]) != header_check(bytes)) {
    return fail(ErrorCode::kCorrupt, "frame header does not match its check");
  }
  FrameHeader header;
  header.version = load<std::uint16_t>(&bytes[kVersionAt]);
  header.type = static_cast<FrameType>(load<std::uint8_t>(&bytes[kTypeAt]));
  const bool known = header.version >= kWireVersionMin && header.version <= kWireVersion;
  if (!known && !is_for_every_version(header.type)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the peer speaks wire version {}, this program {} to {}",
                            header.version, kWireVersionMin, kWireVersion));
  }
  if (frame_type_name(header.type).empty()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("unknown frame type {}", load<std::uint8_t>(&bytes[kTypeAt])));
  }
  header.flags = load<std::uint8_t>(&bytes[kFlagsAt]);
  header.epoch.value = load<std::uint64_t>(&bytes[kEpochAt]);
  header.step.value = load<std::uint64_t>(&bytes[kStepAt]);
  header.data_bytes = load<std::uint64_t>(&bytes[kDataBytesAt]);
  header.body_bytes = load<std::uint32_t>(&bytes[kBodyBytesAt]);
  header.checksum = load<std::uint64_t>(&bytes[kChecksumAt]);
  RETURN_IF_ERROR(check_lengths(header));
  return header;
}

std::uint64_t payload_checksum(std::span<const std::byte> body, std::span<const std::byte> data) {
  return xxh3(body, data);
}

Result<void> verify_payload(const FrameHeader& header, std::span<const std::byte> body,
                            std::span<const std::byte> data) {
  if (body.size() != header.body_bytes || data.size() != header.data_bytes ||
      payload_checksum(body, data) != header.checksum) {
    return fail(ErrorCode::kCorrupt, fmt::format("{} frame of step {} does not match its checksum",
                                                 frame_type_name(header.type), header.step.value));
  }
  return {};
}

}  // namespace salvage::wire
