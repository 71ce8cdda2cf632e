#pragma once

// ShardFacts as metadata of the shard's file, keys under `salvage.shard.`; one list of keys for
// writing and reading. Other programs ignore them.

#include <optional>
#include <string_view>

#include "base/result.h"
#include "model/metadata.h"
#include "model/shard_facts.h"

namespace salvage::model {

inline constexpr std::string_view kTableDigestKey = "salvage.table.model_digest";

void write_shard_keys(const ShardFacts& facts, Metadata& metadata);

// Nothing for a file that is no shard. `unsupported` for a later version, `corrupt` for facts that
// contradict each other.
Result<std::optional<ShardFacts>> read_shard_keys(const Metadata& metadata);

}  // namespace salvage::model
