#include "engine/llama/stage_loader.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <ggml-backend.h>
#include <llama-ext.h>

#include "engine/llama/backend.h"
#include "engine/llama/fingerprint.h"
#include "model/architecture.h"
#include "model/gguf.h"
#include "model/shard.h"

namespace salvage::engine {
namespace {

constexpr std::uint32_t kSequenceCountMax = 64;
constexpr std::uint32_t kRowsMax = 8192;         // 8192 rows x 20 KB are 160 MB a micro-batch
constexpr std::uint32_t kContextMax = 1U << 24;  // tokens; the longest trained today is 10 M
constexpr std::uint32_t kCacheCellsStep = 256;   // libllama pads each sequence's cache to this
constexpr std::uint32_t kMropePlanes = 4;

tl::unexpected<Error> refuse(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> check_options(const StageOptions& options) {
  if (options.sequence_count_max == 0 || options.sequence_count_max > kSequenceCountMax) {
    return refuse(fmt::format("{} sequences; a stage holds 1 to {}", options.sequence_count_max,
                              kSequenceCountMax));
  }
  if (options.rows_max == 0 || options.rows_max > kRowsMax) {
    return refuse(
        fmt::format("micro-batches of {} rows; 1 to {} are possible", options.rows_max, kRowsMax));
  }
  if (options.logit_rows_max == 0) return refuse("a stage must be allowed at least 1 logit row");
  const std::uint64_t cells =
      std::uint64_t{options.context_per_sequence} * options.sequence_count_max;
  if (options.context_per_sequence == 0 || options.context_per_sequence > kContextMax ||
      cells > std::numeric_limits<std::int32_t>::max() / 2) {
    return refuse(fmt::format("a context of {} tokens for each of {} sequences is out of range",
                              options.context_per_sequence, options.sequence_count_max));
  }
  return {};
}

Result<void> open_table(StagePlan& plan, const StageOptions& options) {
  const bool wanted =
      !plan.whole && plan.shard.first() && plan.shard.input == model::ShardInput::kHidden;
  if (!wanted) {
    if (options.embedding_table.empty()) return {};
    return refuse("an embedding table was given to a stage that doesn't embed with one");
  }
  if (options.embedding_table.empty()) {
    return refuse(fmt::format("{} is a first shard that needs its embedding table",
                              options.weights.string()));
  }
  ASSIGN_OR_RETURN(plan.table, EmbeddingTable::open(options.embedding_table));
  if (plan.table->model_digest() != plan.shard.model_digest) {
    return refuse(fmt::format("{} is the embedding table of another model",
                              options.embedding_table.string()));
  }
  if (plan.table->row_width() > plan.shard.row_width_in ||
      plan.table->row_count() < plan.shard.vocabulary_size) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("the embedding table has {} rows of {}, its shard wants {} of {}",
                            plan.table->row_count(), plan.table->row_width(),
                            plan.shard.vocabulary_size, plan.shard.row_width_in));
  }
  return {};
}

// ggml's plain CPU memory under another name. An override to the CPU buffer type itself still lets
// libllama repack; one to this type does not.
ggml_backend_buffer_type_t plain_buffer_type() {
  alignas(64) static char anchor[64];
  static const ggml_backend_buffer_type_t type = [] {
    ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(anchor, sizeof anchor);
    const ggml_backend_buffer_type_t result = ggml_backend_buffer_get_type(buffer);
    ggml_backend_buffer_free(buffer);
    return result;
  }();
  return type;
}

bool report_progress(float progress, void* callback) {
  const auto& report = *static_cast<const LoadProgress*>(callback);
  return !report || report(static_cast<double>(progress));
}

ggml_type cache_type(CacheType type) {
  return type == CacheType::kQ8_0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
}

std::uint32_t padded_context(const StageOptions& options) {
  return (options.context_per_sequence + kCacheCellsStep - 1) / kCacheCellsStep * kCacheCellsStep;
}

// Rows whose output libllama makes room for. It wants at least one for each sequence.
std::uint32_t outputs_max(const StagePlan& plan, const StageOptions& options, std::uint32_t rows) {
  if (!plan.gives_logits()) return rows;
  return std::min(rows, std::max(options.logit_rows_max, options.sequence_count_max));
}

StageMemory memory_of(const llama_context* context) {
  StageMemory memory;
  for (const auto& [type, bytes] : llama_get_memory_breakdown(context)) {
    memory.weights_bytes += bytes.model;
    memory.kv_cache_bytes += bytes.context;
    memory.compute_bytes += bytes.compute;
  }
  return memory;
}

Result<void> check_fits(const llama_model* model, const StagePlan& plan) {
  const auto layer_count = static_cast<std::uint32_t>(llama_model_n_layer(model));
  if (layer_count != plan.shard.layers.count()) {
    return fail(ErrorCode::kCorrupt, fmt::format("the shard says it holds {} layers, it holds {}",
                                                 plan.shard.layers.count(), layer_count));
  }
  const auto width = static_cast<std::uint32_t>(llama_model_n_embd_inp(model));
  if (plan.row_input() == RowInput::kRows && plan.shard.row_width_in != width) {
    return fail(ErrorCode::kCorrupt, fmt::format("the shard says rows of {} floats enter, it takes "
                                                 "{}",
                                                 plan.shard.row_width_in, width));
  }
  const int vocabulary_size = llama_vocab_n_tokens(llama_model_get_vocab(model));
  const bool needs_vocabulary = plan.gives_logits() || plan.takes_tokens();
  if (needs_vocabulary && !plan.table &&
      static_cast<std::uint32_t>(vocabulary_size) != plan.shard.vocabulary_size) {
    return fail(ErrorCode::kCorrupt, fmt::format("the shard says {} vocabulary entries, it has {}",
                                                 plan.shard.vocabulary_size, vocabulary_size));
  }
  return {};
}

}  // namespace

bool StagePlan::takes_tokens() const {
  return whole || shard.first();
}

RowInput StagePlan::row_input() const {
  if (whole || shard.input == model::ShardInput::kTokens) return RowInput::kTokens;
  return shard.input == model::ShardInput::kReplace ? RowInput::kPlaceholder : RowInput::kRows;
}

HiddenTapNames StagePlan::tap_names() const {
  if (whole) return {};
  HiddenTapNames names{.output_tensor = shard.output_tensor,
                       .replace_tensor = shard.replace_tensor,
                       .scales = shard.scale_patches};
  for (const std::string& tensor : shard.unscale_tensors) {
    names.scales.push_back({.tensor = tensor, .behind = false, .scale = 1.0F});
  }
  return names;
}

Result<StagePlan> plan_stage(const StageOptions& options) {
  RETURN_IF_ERROR(check_options(options));
  ASSIGN_OR_RETURN(const model::Gguf file, model::Gguf::open(options.weights));
  StagePlan plan;
  plan.weights_path = file.part_name(0);
  ASSIGN_OR_RETURN(const std::optional<model::ShardFacts> facts, model::read_shard_facts(file));
  plan.whole = !facts.has_value();
  if (facts) {
    plan.shard = *facts;
  } else {
    // Refuses what is no language model of its own (mmproj, encoders, draft heads) by name.
    ASSIGN_OR_RETURN(model::SplitRules rules, model::split_rules(file, model::Unproven::kAllow));
    plan.shard.architecture = std::move(rules.architecture);
  }
  plan.placement = place_weights(file.tensors(), plan.shard.architecture, options);
  RETURN_IF_ERROR(open_table(plan, options));
  return plan;
}

Result<ModelHandle> load_weights(const StagePlan& plan, const LoadProgress& progress) {
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.load_mode = LLAMA_LOAD_MODE_NONE;  // A mapped file would hold repacked tensors twice.
  params.use_extra_bufts = plan.placement.repack;
  params.progress_callback = report_progress;
  params.progress_callback_user_data = const_cast<LoadProgress*>(&progress);
  std::vector<llama_model_tensor_buft_override> overrides;
  for (const std::string& pattern : plan.placement.plain) {
    overrides.push_back({.pattern = pattern.c_str(), .buft = plain_buffer_type()});
  }
  overrides.push_back({.pattern = nullptr, .buft = nullptr});
  params.tensor_buft_overrides = overrides.data();
  bool cancelled = false;
  const LoadProgress watch = [&](double done) {
    cancelled = progress && !progress(done);
    return !cancelled;
  };
  params.progress_callback_user_data = const_cast<LoadProgress*>(&watch);
  clear_backend_log();
  ModelHandle model(llama_model_load_from_file(plan.weights_path.c_str(), params));
  if (model) return model;
  if (cancelled) return fail(ErrorCode::kCancelled, "loading " + plan.weights_path);
  return fail(backend_error(ErrorCode::kCorrupt, "can't load " + plan.weights_path));
}

Result<ContextHandle> make_context(llama_model* model, const StagePlan& plan,
                                   const StageOptions& options, HiddenTap* tap) {
  if (llama_model_has_encoder(model) || !llama_model_has_decoder(model)) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{} models have an encoder; only decoders can run", plan.shard.architecture));
  }
  llama_context_params params = llama_context_default_params();
  const std::uint32_t rows = std::max(options.rows_max, options.sequence_count_max);
  params.n_ctx = padded_context(options) * options.sequence_count_max;
  params.n_seq_max = options.sequence_count_max;
  params.n_batch = rows;
  params.n_ubatch = rows;
  params.n_outputs_max = outputs_max(plan, options, rows);
  params.n_outputs_max_per_seq = params.n_outputs_max;
  params.n_threads = static_cast<std::int32_t>(options.thread_count);
  params.n_threads_batch = params.n_threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.type_k = cache_type(options.cache_type_k);
  params.type_v = cache_type(options.cache_type_v);
  params.kv_unified = false;  // docs/decisions/0002
  params.swa_full = true;     // A window that forgets could not be trimmed back exactly.
  params.offload_kqv = false;
  params.op_offload = false;
  if (tap != nullptr) {
    params.cb_eval = HiddenTap::on_tensor;
    params.cb_eval_user_data = tap;
  }
  clear_backend_log();
  ContextHandle context(llama_init_from_model(model, params));
  if (!context) {
    return fail(backend_error(
        ErrorCode::kUnsupported,
        fmt::format("no room or no way for {} sequences of {} tokens with a {}/{} KV cache",
                    options.sequence_count_max, options.context_per_sequence,
                    cache_type_name(options.cache_type_k), cache_type_name(options.cache_type_v))));
  }
  // A diffusion model has no cache either: each micro-batch is a whole text.
  if (llama_get_memory(context.get()) == nullptr && !llama_model_is_diffusion(model)) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{} is an embedding model: it generates no text", plan.shard.architecture));
  }
  return context;
}

Result<StageFacts> describe_stage(llama_context* context, const StagePlan& plan,
                                  const StageOptions& options) {
  const llama_model* model = llama_get_model(context);
  StageFacts facts;
  facts.architecture = plan.shard.architecture;
  facts.takes_tokens = plan.takes_tokens();
  facts.gives_logits = plan.gives_logits();
  if (plan.whole) {
    facts.layer_count = static_cast<std::uint32_t>(llama_model_n_layer(model));
    facts.layers = {0, facts.layer_count};
    facts.vocabulary_size =
        static_cast<std::uint32_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  } else {
    RETURN_IF_ERROR(check_fits(model, plan));
    facts.layer_count = plan.shard.layer_count;
    facts.layers = plan.shard.layers;
    facts.vocabulary_size = plan.shard.vocabulary_size;
  }
  facts.row_width_in = facts.takes_tokens ? 0 : plan.shard.row_width_in;
  facts.row_width_out = facts.gives_logits ? 0 : plan.shard.row_width_out;
  const llama_rope_type rope = llama_model_rope_type(model);
  if (rope == LLAMA_ROPE_TYPE_MROPE || rope == LLAMA_ROPE_TYPE_IMROPE) {
    facts.position_planes = kMropePlanes;
  }
  facts.can_trim = !llama_model_is_recurrent(model) && !llama_model_is_hybrid(model);
  facts.rows_exact_max = plan.placement.rows_exact_max;
  facts.kernel_fingerprint = kernel_fingerprint(plan.placement, options);
  facts.memory = memory_of(context);
  return facts;
}

}  // namespace salvage::engine
