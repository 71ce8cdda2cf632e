#pragma once

// Every bound of the wire format, in one place. A reader checks a count against its limit before it
// allocates anything; a count above its limit is an error of the peer and ends the connection.
// docs/wire.md repeats these numbers; wire/golden_test.cc compares the two.

#include <cstddef>
#include <cstdint>

namespace salvage::wire {

// 64k rows: a whole 64k prompt in one micro-batch. Real chunks are 16 .. 512 rows.
inline constexpr std::uint32_t kRowsMax = 65536;
// Floats a row: the widest known embedding is 16,384; Qwen3-VL's rows are (1 + 3) x 5,120.
inline constexpr std::uint32_t kRowWidthMax = 131072;
inline constexpr std::uint32_t kPositionPlanesMax = 4;
// One clear, trim or copy for each of 64 sequences, several times over.
inline constexpr std::uint32_t kSequenceOpsMax = 1024;
// Vocabularies reach 262,144 today.
inline constexpr std::uint32_t kVocabularyMax = 1U << 21;
inline constexpr std::uint32_t kTopKMax = 65536;
inline constexpr std::uint32_t kLogitRowsMax = 4096;
inline constexpr std::uint32_t kStagesMax = 256;
// Steps under way are a few a stage.
inline constexpr std::uint32_t kSkipStepsMax = 1024;

// A micro-batch of kRowsMax rows with four position planes has 1.6 MiB of body.
inline constexpr std::uint32_t kDataBodyBytesMax = 16U << 20;
inline constexpr std::uint32_t kControlBodyBytesMax = 1U << 20;
// Raw tensor bytes of one frame. The receiver's plan bounds them much closer (rows x width).
inline constexpr std::uint64_t kDataBytesMax = 4ULL << 30;

// Bytes of a piece in one frame: small enough to share a link fairly, large enough for its rate.
inline constexpr std::uint64_t kBlobBytesMax = 4ULL << 20;

inline constexpr std::size_t kTextBytesMax = 4096;      // one string of a control message
inline constexpr std::uint32_t kListItemsMax = 4096;    // one list of a control message
inline constexpr std::uint32_t kControlDepthMax = 8;    // nesting of a control message
inline constexpr std::uint32_t kCreditsMax = 1U << 20;  // one grant
inline constexpr std::size_t kAuthTokenBytes = 64;      // 32 random bytes as hex

}  // namespace salvage::wire
