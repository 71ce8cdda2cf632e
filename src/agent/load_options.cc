#include "agent/load_options.h"

#include <fmt/format.h>

namespace salvage::agent {
namespace {

constexpr std::uint32_t kThreadsMax = 512;
constexpr std::uint32_t kSequencesMax = 64;
constexpr std::uint32_t kContextMax = 1U << 24;
constexpr std::uint32_t kCreditsMax = 256;
constexpr std::uint32_t kCheckpointsMax = 1024;

Result<CacheType> parse_cache_type(const std::string& name) {
  if (name == cache_type_name(CacheType::kQ8_0)) return CacheType::kQ8_0;
  if (name == cache_type_name(CacheType::kF16)) return CacheType::kF16;
  return fail(ErrorCode::kUnsupported, fmt::format("unknown cache type '{}'", name));
}

Result<void> check_range(std::string_view name, std::uint32_t value, std::uint32_t max) {
  if (value >= 1 && value <= max) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} = {} is not in 1..{}", name, value, max));
}

}  // namespace

Result<engine::StageOptions> to_stage_options(const wire::LoadStage& load) {
  RETURN_IF_ERROR(check_range("thread_count", load.thread_count, kThreadsMax));
  RETURN_IF_ERROR(check_range("sequence_count_max", load.sequence_count_max, kSequencesMax));
  RETURN_IF_ERROR(check_range("context_per_sequence", load.context_per_sequence, kContextMax));
  RETURN_IF_ERROR(check_range("rows_max", load.rows_max, wire::kRowsMax));
  RETURN_IF_ERROR(check_range("logit_rows_max", load.logit_rows_max, wire::kLogitRowsMax));
  RETURN_IF_ERROR(check_range("credits", load.credits, kCreditsMax));
  if (load.checkpoint_count != 0) {
    RETURN_IF_ERROR(check_range("checkpoint_count", load.checkpoint_count, kCheckpointsMax));
  }
  engine::StageOptions options;
  options.weights = load.weights;
  options.embedding_table = load.embedding_table;
  options.context_per_sequence = load.context_per_sequence;
  options.sequence_count_max = load.sequence_count_max;
  options.rows_max = load.rows_max;
  options.logit_rows_max = load.logit_rows_max;
  options.thread_count = load.thread_count;
  options.cores = load.cores;
  ASSIGN_OR_RETURN(options.cache_type_k, parse_cache_type(load.cache_type_k));
  ASSIGN_OR_RETURN(options.cache_type_v, parse_cache_type(load.cache_type_v));
  options.exact = load.exact;
  options.checkpoint_count = load.checkpoint_count;
  return options;
}

void from_stage_options(const engine::StageOptions& options, wire::LoadStage& load) {
  load.weights = options.weights.string();
  load.embedding_table = options.embedding_table.string();
  load.context_per_sequence = options.context_per_sequence;
  load.sequence_count_max = options.sequence_count_max;
  load.rows_max = options.rows_max;
  load.logit_rows_max = options.logit_rows_max;
  load.thread_count = options.thread_count;
  load.cores = options.cores;
  load.cache_type_k = cache_type_name(options.cache_type_k);
  load.cache_type_v = cache_type_name(options.cache_type_v);
  load.exact = options.exact;
  load.checkpoint_count = options.checkpoint_count;
}

wire::StageLoaded to_stage_loaded(const engine::StageFacts& facts) {
  wire::StageLoaded loaded;
  loaded.architecture = facts.architecture;
  loaded.layer_begin = facts.layers.begin;
  loaded.layer_end = facts.layers.end;
  loaded.layer_count = facts.layer_count;
  loaded.takes_tokens = facts.takes_tokens;
  loaded.gives_logits = facts.gives_logits;
  loaded.row_width_in = facts.row_width_in;
  loaded.row_width_out = facts.row_width_out;
  loaded.vocabulary_size = facts.vocabulary_size;
  loaded.position_planes = facts.position_planes;
  loaded.can_trim = facts.can_trim;
  loaded.rows_exact_max = facts.rows_exact_max;
  loaded.kernel_fingerprint = facts.kernel_fingerprint;
  loaded.weights_bytes = facts.memory.weights_bytes;
  loaded.kv_cache_bytes = facts.memory.kv_cache_bytes;
  loaded.compute_bytes = facts.memory.compute_bytes;
  loaded.checkpoint_count = facts.checkpoint_count;
  loaded.checkpoint_bytes = facts.checkpoint_bytes;
  loaded.can_skip = true;  // StageServer does, whatever the engine
  return loaded;
}

engine::StageFacts to_stage_facts(const wire::StageLoaded& loaded) {
  engine::StageFacts facts;
  facts.architecture = loaded.architecture;
  facts.layers = {loaded.layer_begin, loaded.layer_end};
  facts.layer_count = loaded.layer_count;
  facts.takes_tokens = loaded.takes_tokens;
  facts.gives_logits = loaded.gives_logits;
  facts.row_width_in = loaded.row_width_in;
  facts.row_width_out = loaded.row_width_out;
  facts.vocabulary_size = loaded.vocabulary_size;
  facts.position_planes = loaded.position_planes;
  facts.can_trim = loaded.can_trim;
  facts.rows_exact_max = loaded.rows_exact_max;
  facts.kernel_fingerprint = loaded.kernel_fingerprint;
  facts.memory = {loaded.weights_bytes, loaded.kv_cache_bytes, loaded.compute_bytes};
  facts.checkpoint_count = loaded.checkpoint_count;
  facts.checkpoint_bytes = loaded.checkpoint_bytes;
  return facts;
}

}  // namespace salvage::agent
