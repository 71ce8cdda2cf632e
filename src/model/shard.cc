#include "model/shard.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "model/shard_keys.h"
#include "model/shard_plan.h"

namespace salvage::model {
namespace {

Result<void> write_plan(const Gguf& model, const FilePlan& plan, const std::filesystem::path& path,
                        const Progress& progress) {
  for (std::size_t part = 0; part < model.part_count(); ++part) {
    std::error_code ignored;  // A path that doesn't exist yet is no other file.
    if (std::filesystem::equivalent(path, model.part_name(part), ignored)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is the model itself; choose another output", path.native()));
    }
  }
  ASSIGN_OR_RETURN(const std::uint64_t bytes, gguf_bytes(plan.metadata, plan.tensors));
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, bytes));
  RETURN_IF_ERROR(write_gguf(plan.metadata, plan.tensors, file, progress));
  return file.commit();
}

Result<std::string> digest_for(const Gguf& model, const ShardOptions& options) {
  if (!options.model_digest.empty()) return options.model_digest;
  return model_digest(model);
}

}  // namespace

Result<void> write_shard(const Gguf& model, LayerRange layers, const std::filesystem::path& path,
                         const ShardOptions& options) {
  ASSIGN_OR_RETURN(const SplitRules rules, split_rules(model, options.unproven));
  ASSIGN_OR_RETURN(const std::string digest, digest_for(model, options));
  ASSIGN_OR_RETURN(const FilePlan plan, plan_shard(model, layers, rules, digest));
  return write_plan(model, plan, path, options.progress);
}

Result<void> write_embedding_table(const Gguf& model, const std::filesystem::path& path,
                                   const ShardOptions& options) {
  RETURN_IF_ERROR(architecture_row(model));
  ASSIGN_OR_RETURN(const std::string digest, digest_for(model, options));
  ASSIGN_OR_RETURN(const FilePlan plan, plan_embedding_table(model, digest));
  return write_plan(model, plan, path, options.progress);
}

Result<void> write_vocabulary(const Gguf& model, const std::filesystem::path& path) {
  RETURN_IF_ERROR(architecture_row(model));
  return write_plan(model, plan_vocabulary(model), path, {});
}

Result<std::optional<ShardFacts>> read_shard_facts(const Gguf& file) {
  return read_shard_keys(file.metadata());
}

bool is_shard_of(const Gguf& file, const Gguf& model, LayerRange layers) {
  const auto facts = read_shard_facts(file);
  const auto rules = split_rules(model);
  if (!facts || !*facts || !rules) return false;
  const auto plan = plan_shard(model, layers, *rules, (*facts)->model_digest);
  if (!plan || plan->metadata.entries() != file.metadata().entries()) return false;
  return std::equal(plan->tensors.begin(), plan->tensors.end(), file.tensors().begin(),
                    file.tensors().end(), [](const OutputTensor& made, const TensorInfo& found) {
                      return made.name == found.name && made.type == found.type &&
                             made.shape == found.shape;
                    });
}

Result<std::uint64_t> shard_bytes(const Gguf& model, LayerRange layers, Unproven unproven) {
  ASSIGN_OR_RETURN(const SplitRules rules, split_rules(model, unproven));
  ASSIGN_OR_RETURN(const FilePlan plan, plan_shard(model, layers, rules, std::string(64, '0')));
  return gguf_bytes(plan.metadata, plan.tensors);
}

}  // namespace salvage::model
