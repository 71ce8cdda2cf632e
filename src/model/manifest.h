#pragma once

// Everything that `salvage inspect`, the planner and the coordinator want to know about a model,
// derived from its metadata and tensor list alone; nothing of the weights is read. Plain values.

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/architecture.h"
#include "model/cache_type.h"
#include "model/gguf.h"

namespace salvage::model {

struct LayerFacts {
  std::uint64_t weight_bytes = 0;
  bool recurrent = false;  // keeps a state of fixed size
  bool windowed = false;   // remembers at most `window` tokens
  // Values that the KV cache keeps a token: rows of keys and of values, and of the keys by which
  // sparse attention chooses. 0 for layers without attention.
  std::uint32_t key_values = 0;
  std::uint32_t value_values = 0;
  std::uint32_t indexer_values = 0;
  std::uint64_t state_bytes = 0;  // a sequence, whatever its length

  std::uint64_t cache_bytes_per_token(CacheType keys, CacheType values) const;
};

struct TypeFacts {
  std::string type;
  std::uint32_t tensor_count = 0;
  std::uint64_t bytes = 0;
};

struct Manifest {
  std::string architecture;
  std::string name;  // general.name, may be empty
  std::uint32_t layer_count = 0;
  std::vector<LayerFacts> layers;
  std::vector<TypeFacts> types;        // most bytes first
  std::uint64_t file_bytes = 0;        // of all parts
  std::uint64_t parameter_count = 0;   // numbers in all tensors
  std::uint64_t embedding_bytes = 0;   // token_embd
  std::uint64_t output_bytes = 0;      // the last stage's matrix: output, or token_embd if tied
  bool output_is_embedding = false;    // tied
  std::uint64_t shared_bytes = 0;      // norms, factors: in every shard
  std::uint32_t embedding_length = 0;  // floats of one row of hidden states
  std::uint32_t context_length = 0;    // trained
  std::uint32_t window = 0;            // tokens of the windowed layers; 0 = no such layers
  std::uint64_t vocabulary_size = 0;
  std::string tokenizer_model;  // "gpt2", "llama", ...; empty if the file has none
  bool has_chat_template = false;
  std::uint32_t position_planes = 1;  // 4 for M-RoPE and IM-RoPE
  std::uint32_t expert_count = 0;
  std::uint32_t expert_used_count = 0;
  bool recurrent = false;          // some layers keep a state of fixed size
  bool hybrid = false;             // some do and some don't
  bool can_trim = true;            // false: a sequence can only grow, be copied or cleared
  std::string generation_problem;  // why it cannot continue a prompt; empty = it can
  SplitRules split;

  std::uint64_t cache_bytes_per_token(CacheType keys, CacheType values) const;  // all layers
  std::uint64_t layer_bytes(LayerRange range) const;
  // Weights of a stage as its shard holds them: layers, shared tensors, in the last stage the head.
  std::uint64_t stage_bytes(LayerRange range) const;
};

// Fails as split_rules() and validate_for_engine() do.
Result<Manifest> read_manifest(const Gguf& model, Unproven unproven = Unproven::kRefuse);

}  // namespace salvage::model
