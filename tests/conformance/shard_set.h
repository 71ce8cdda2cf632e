#pragma once

// The shards of one model and the engines that have loaded them, made when first asked for and kept
// for every split that has the same stage. Lives in one process, removes its files at the end.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/stage_engine.h"
#include "model/architecture.h"
#include "splits.h"

namespace salvage::conformance {

// Changes a written shard before it is loaded: the mutation check.
using ShardHook = std::function<Result<void>(LayerRange, const std::filesystem::path&)>;

struct StageSettings {
  CacheType cache_type = CacheType::kQ8_0;
  bool exact = false;
  std::uint32_t sequence_count_max = 1;
  std::uint32_t checkpoint_count = 0;
};

class ShardSet {
 public:
  // `model` was opened from `model_path` and outlives the set; `folder` is made and removed.
  ShardSet(const model::Gguf& model, std::filesystem::path model_path, std::filesystem::path folder,
           model::Unproven unproven);
  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;
  ~ShardSet();

  void use_settings(StageSettings settings) { settings_ = settings; }
  void on_shard(ShardHook hook) { hook_ = std::move(hook); }

  // From here on makes any stage that is asked for, whatever the rules say: the mutation check
  // shows that the rules are needed.
  Result<void> allow_all_cuts();

  // Engines of the split's stages, in order. Borrowed; valid as long as the set.
  Result<std::vector<engine::StageEngine*>> stages(const Split& split);

 private:
  Result<engine::StageEngine*> stage(LayerRange layers);
  Result<void> write(LayerRange layers, const std::filesystem::path& path);
  Result<std::filesystem::path> shard_file(LayerRange layers);
  Result<std::filesystem::path> table_file();
  Result<std::unique_ptr<engine::StageEngine>> load(LayerRange layers);

  const model::Gguf& model_;
  std::filesystem::path model_path_;
  std::filesystem::path folder_;
  model::Unproven unproven_;
  StageSettings settings_;
  ShardHook hook_;
  std::optional<model::SplitRules> lawless_rules_;
  std::uint32_t layer_count_ = 0;
  std::map<LayerRange, std::unique_ptr<engine::StageEngine>> engines_;
};

}  // namespace salvage::conformance
