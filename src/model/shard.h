#pragma once

// Makes the files that a split model consists of: shards (layers [a, b) as an ordinary GGUF that
// upstream's tools open), the embedding table (token_embd alone, read row by row by whoever runs
// the first stage) and the vocabulary (metadata only, for the coordinator).
//
// All stream: memory stays below 64 MiB beside the metadata whatever the model's size, and a file
// appears under its name only when it is complete.
// Failure: `invalid_argument` for layers that may not be a stage or an output that is the model
// itself, `unsupported` for models that may not be cut, `resource_exhausted` for a full disk,
// `cancelled` when the progress callback says so.

#include <filesystem>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "model/architecture.h"
#include "model/digest.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "model/shard_facts.h"

namespace salvage::model {

struct ShardOptions {
  Progress progress = {};  // 0..1, returns false to stop
  Unproven unproven = Unproven::kRefuse;
  // The model's digest (model/digest.h) where it is known; for a model put together from pieces it
  // must be given, since computing it takes data of every tensor. Empty = computed.
  std::string model_digest = {};
};

Result<void> write_shard(const Gguf& model, LayerRange layers, const std::filesystem::path& path,
                         const ShardOptions& options = {});

// The table's file has one tensor, token_embd.weight (shape[0] floats a row, shape[1] rows).
Result<void> write_embedding_table(const Gguf& model, const std::filesystem::path& path,
                                   const ShardOptions& options = {});

Result<void> write_vocabulary(const Gguf& model, const std::filesystem::path& path);

// Nothing for a file that is a whole model.
Result<std::optional<ShardFacts>> read_shard_facts(const Gguf& file);

// Whether `file` is, tensor data apart, what write_shard() would make of these layers now. Not so
// for a shard of another model, or one made by a version of this program that treated it otherwise.
bool is_shard_of(const Gguf& file, const Gguf& model, LayerRange layers);

// Bytes that write_shard() would write.
Result<std::uint64_t> shard_bytes(const Gguf& model, LayerRange layers,
                                  Unproven unproven = Unproven::kRefuse);

}  // namespace salvage::model
