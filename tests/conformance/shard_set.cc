#include "shard_set.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "engine/llama/llama_stage.h"
#include "model/shard.h"
#include "model/shard_plan.h"
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
  options.cache_type_k = settings_.cache_type;
  options.cache_type_v = settings_.cache_type;
  options.exact = settings_.exact;
  options.sequence_count_max = settings_.sequence_count_max;
  options.checkpoint_count = settings_.checkpoint_count;
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

Result<void> ShardSet::allow_all_cuts() {
  ASSIGN_OR_RETURN(lawless_rules_, model::split_rules(model_, unproven_));
  lawless_rules_->cut_legal.assign(lawless_rules_->layer_count + 1, true);
  lawless_rules_->stage_sizes_refused.clear();
  lawless_rules_->kinds_needed = 0;
  return {};
}

Result<void> ShardSet::write(LayerRange layers, const std::filesystem::path& path) {
  if (!lawless_rules_) {
    return model::write_shard(model_, layers, path, {.progress = {}, .unproven = unproven_});
  }
  ASSIGN_OR_RETURN(const std::string digest, model::model_digest(model_));
  ASSIGN_OR_RETURN(const model::FilePlan plan,
                   model::plan_shard(model_, layers, *lawless_rules_, digest));
  ASSIGN_OR_RETURN(const std::uint64_t bytes, model::gguf_bytes(plan.metadata, plan.tensors));
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, bytes));
  RETURN_IF_ERROR(model::write_gguf(plan.metadata, plan.tensors, file, {}));
  return file.commit();
}

Result<std::filesystem::path> ShardSet::shard_file(LayerRange layers) {
  const std::filesystem::path path = folder_ / fmt::format("{}-{}.gguf", layers.begin, layers.end);
  RETURN_IF_ERROR(write(layers, path));
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
