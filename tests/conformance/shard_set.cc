#include "shard_set.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "engine/llama/llama_stage.h"
#include "model/shard.h"
#include "run_plan.h"

namespace salvage::conformance {
namespace {

constexpr std::uint32_t kContextTokens = 256;
constexpr std::uint32_t kRowsMax = 64;

}  // namespace

ShardSet::ShardSet(const model::Gguf& model, std::filesystem::path model_path,
                   std::filesystem::path folder, model::Unproven unproven)
    : model_(model),
      model_path_(std::move(model_path)),
      folder_(std::move(folder)),
      unproven_(unproven) {
  std::error_code ignored;  // Writing the first shard reports it.
  std::filesystem::create_directories(folder_, ignored);
  layer_count_ = model::model_layer_count(model_).value_or(0);
}

ShardSet::~ShardSet() {
  engines_.clear();
  std::error_code ignored;  // Files that stay cost only space.
  std::filesystem::remove_all(folder_, ignored);
}

Result<std::vector<engine::StageEngine*>> ShardSet::stages(const Split& split) {
  std::vector<engine::StageEngine*> stages;
  for (const LayerRange& layers : split) {
    ASSIGN_OR_RETURN(engine::StageEngine* const engine, stage(layers));
    stages.push_back(engine);
  }
  return stages;
}

Result<engine::StageEngine*> ShardSet::stage(LayerRange layers) {
  const auto found = engines_.find(layers);
  if (found != engines_.end()) return found->second.get();
  ASSIGN_OR_RETURN(auto engine, load(layers));
  return engines_.emplace(layers, std::move(engine)).first->second.get();
}

Result<std::unique_ptr<engine::StageEngine>> ShardSet::load(LayerRange layers) {
  engine::StageOptions options;
  options.context_per_sequence = kContextTokens;
  options.rows_max = kRowsMax;
  options.logit_rows_max = kRowsMax;
  options.cache_type_k = cache_type_;
  options.cache_type_v = cache_type_;
  if (layers.count() == layer_count_) {
    options.weights = model_path_;
  } else {
    ASSIGN_OR_RETURN(options.weights, shard_file(layers));
    const auto file = model::Gguf::open(options.weights);
    if (!file) return fail(file.error());
    ASSIGN_OR_RETURN(const auto facts, model::read_shard_facts(*file));
    const bool embeds = facts && facts->input == model::ShardInput::kTokens;
    if (layers.begin == 0 && !embeds) {
      ASSIGN_OR_RETURN(options.embedding_table, table_file());
    }
  }
  return engine::make_llama_stage_engine(options, [](double) { return true; });
}

Result<std::filesystem::path> ShardSet::shard_file(LayerRange layers) {
  const std::filesystem::path path = folder_ / fmt::format("{}-{}.gguf", layers.begin, layers.end);
  RETURN_IF_ERROR(
      model::write_shard(model_, layers, path, {.progress = {}, .unproven = unproven_}));
  if (hook_) RETURN_IF_ERROR(hook_(layers, path));
  return path;
}

Result<std::filesystem::path> ShardSet::table_file() {
  const std::filesystem::path path = folder_ / "table.gguf";
  if (!std::filesystem::exists(path)) {
    RETURN_IF_ERROR(model::write_embedding_table(model_, path));
  }
  return path;
}

}  // namespace salvage::conformance
