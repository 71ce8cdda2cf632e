#pragma once

// What a shard's file will contain: metadata and tensors, before anything is written. Pure; the
// treatments of the architecture table are carried out here. shard.h writes plans.

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/architecture.h"
#include "model/gguf_writer.h"
#include "model/shard_facts.h"

namespace salvage::model {

struct FilePlan {
  Metadata metadata;
  std::vector<OutputTensor> tensors;  // point into the model, which must outlive the plan
};

// Fails if the layers may not be a stage (SplitRules::check_stage) or if the model lacks tensors.
Result<FilePlan> plan_shard(const Gguf& model, LayerRange layers, const SplitRules& rules,
                            const std::string& digest);

// The same facts that plan_shard() writes into the shard.
ShardFacts shard_facts(const Gguf& model, LayerRange layers, const SplitRules& rules,
                       const std::string& digest);

// token_embd alone, with what it takes to read it.
Result<FilePlan> plan_embedding_table(const Gguf& model, const std::string& digest);

// All metadata, no tensors: libllama loads it with vocab_only.
FilePlan plan_vocabulary(const Gguf& model);

}  // namespace salvage::model
