#pragma once

// What is spoiled, and where. Plain data and small changes to a shard's contents.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/gguf_writer.h"
#include "model/metadata.h"

namespace salvage::conformance {

// A shard's file between reading and writing it again, and the model that it was cut from.
struct ShardContents {
  const model::Gguf& whole;
  const model::Gguf& shard;
  model::Metadata metadata;
  std::vector<model::OutputTensor> tensors;
};

struct Mutation {
  std::string name;
  std::string fixture;
  std::uint32_t cut = 4;  // two stages: [0, cut) and [cut, layer count)
  // Spoils the second stage's shard; empty: the shard stays as it is.
  std::function<void(ShardContents&)> change = {};
  bool illegal_cut = false;       // makes the shards although the rules forbid this cut
  bool hidden_by_an_ulp = false;  // one number of the hidden states is off by the last bit
  bool may_not_load = false;      // libllama may refuse the shard instead of computing wrongly
};

std::vector<Mutation> mutation_catalogue();

}  // namespace salvage::conformance
