#pragma once

// From StageOptions to a loaded libllama context, in steps that each can fail: read what the files
// say (plan_stage), load weights (load_weights), reserve cache and compute buffers (make_context),
// tell what came out (describe_stage). Everything that can be checked in the file is checked before
// libllama sees it, because libllama asserts on some of it.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/llama/compute_threads.h"
#include "engine/llama/embedding_table.h"
#include "engine/llama/handles.h"
#include "engine/llama/hidden_tap.h"
#include "engine/llama/step_batch.h"
#include "engine/llama/weight_placement.h"
#include "engine/stage_engine.h"
#include "model/shard_facts.h"

namespace salvage::engine {

struct StagePlan {
  std::string weights_path;  // the first part, if there are several
  model::ShardFacts shard;   // of a whole model: only the architecture
  bool whole = false;
  WeightPlacement placement;
  std::optional<EmbeddingTable> table;

  bool takes_tokens() const;
  bool gives_logits() const { return whole || shard.last(); }
  RowInput row_input() const;
  HiddenTapNames tap_names() const;
};

Result<StagePlan> plan_stage(const StageOptions& options);

Result<ModelHandle> load_weights(const StagePlan& plan, const LoadProgress& progress);

// `tap` is used by the context as long as it lives; null if nothing is tapped.
Result<ContextHandle> make_context(llama_model* model, const StagePlan& plan,
                                   const StageOptions& options, HiddenTap* tap);

// Also checks that model and plan fit together.
Result<StageFacts> describe_stage(llama_context* context, const StagePlan& plan,
                                  const StageOptions& options);

}  // namespace salvage::engine
