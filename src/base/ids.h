#pragma once

// Distinct types for the numbers that name things, so that a stage index is never passed where a
// sequence is wanted. All are plain values, ordered, hashable by their `value`.

#include <compare>
#include <cstdint>
#include <string>

namespace salvage {

template <typename Tag, typename Number>
struct Id {
  Number value{};
  friend auto operator<=>(const Id&, const Id&) = default;
};

using StageIndex = Id<struct StageIndexTag, std::uint32_t>;  // 0 is the stage that embeds tokens.
using PlanEpoch = Id<struct PlanEpochTag, std::uint64_t>;    // Grows with every plan; never reused.
using StepId = Id<struct StepIdTag, std::uint64_t>;  // One micro-batch's way through all stages.
using RequestId = Id<struct RequestIdTag, std::uint64_t>;  // One answer being made.
using SequenceId =
    Id<struct SequenceIdTag, std::uint32_t>;  // KV cache lane, 0 .. sequence_count_max-1.
using CheckpointId =
    Id<struct CheckpointIdTag, std::uint32_t>;  // A saved state, 0 .. checkpoint_count-1.

// 64 lower-case hex digits, the SHA-256 of what they name (docs/cluster.md); empty = none.
using NodeId = Id<struct NodeIdTag, std::string>;    // a machine: of its public key
using ModelId = Id<struct ModelIdTag, std::string>;  // a model: of its skeleton and piece digests
using PieceDigest = Id<struct PieceDigestTag, std::string>;  // weights that are moved as one

// Token ids stay plain: libllama, the wire and JSON all carry them as int32.
using TokenId = std::int32_t;

// Half-open range of a model's layers, counted from 0 in the whole model.
struct LayerRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t count() const { return end - begin; }
  friend auto operator<=>(const LayerRange&, const LayerRange&) = default;
};

}  // namespace salvage
