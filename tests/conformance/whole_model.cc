#include "whole_model.h"

#include <utility>

#include <fmt/format.h>

#include "llama.h"

namespace salvage::conformance {
namespace {

constexpr std::uint32_t kContextTokens = 256;
constexpr std::uint32_t kRowsMax = 64;

llama_context_params context_params(CacheType cache_type) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = kContextTokens;
  params.n_batch = kRowsMax;
  params.n_ubatch = kRowsMax;
  params.n_seq_max = 1;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.type_k = cache_type == CacheType::kQ8_0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
  params.type_v = params.type_k;
  return params;
}

// One micro-batch of sequence 0, every row with logits.
class Batch {
 public:
  Batch() : batch_(llama_batch_init(static_cast<int>(kRowsMax), 0, 1)) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() { llama_batch_free(batch_); }

  llama_batch& fill(const TokenId* tokens, std::size_t begin, std::size_t count) {
    batch_.n_tokens = static_cast<int>(count);
    for (std::size_t i = 0; i < count; ++i) {
      batch_.token[i] = tokens[begin + i];
      batch_.pos[i] = static_cast<llama_pos>(begin + i);
      batch_.n_seq_id[i] = 1;
      batch_.seq_id[i][0] = 0;
      batch_.logits[i] = 1;
    }
    return batch_;
  }

 private:
  llama_batch batch_;
};

}  // namespace

struct WholeModel::State {
  struct Free {
    void operator()(llama_model* owned) const { llama_model_free(owned); }
    void operator()(llama_context* owned) const { llama_free(owned); }
  };
  std::unique_ptr<llama_model, Free> model;
  std::unique_ptr<llama_context, Free> context;
};

WholeModel::WholeModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
WholeModel::WholeModel(WholeModel&&) noexcept = default;
WholeModel& WholeModel::operator=(WholeModel&&) noexcept = default;
WholeModel::~WholeModel() = default;

Result<WholeModel> WholeModel::load(const std::filesystem::path& path, CacheType cache_type,
                                    bool repack) {
  auto state = std::make_unique<State>();
  llama_model_params params = llama_model_default_params();
  params.use_extra_bufts = repack;
  state->model.reset(llama_model_load_from_file(path.c_str(), params));
  if (!state->model) return fail(ErrorCode::kUnsupported, "libllama does not load the whole model");
  if (llama_model_has_encoder(state->model.get())) {
    return fail(ErrorCode::kUnsupported, "the model has an encoder");
  }
  state->context.reset(llama_init_from_model(state->model.get(), context_params(cache_type)));
  if (!state->context) return fail(ErrorCode::kUnsupported, "libllama makes no context for it");
  return WholeModel(std::move(state));
}

std::uint32_t WholeModel::vocabulary_size() const {
  return static_cast<std::uint32_t>(
      llama_vocab_n_tokens(llama_model_get_vocab(state_->model.get())));
}

Result<Logits> WholeModel::run(const RunPlan& plan) {
  llama_context* context = state_->context.get();
  if (llama_get_memory(context)) llama_memory_clear(llama_get_memory(context), true);
  Logits logits;
  logits.vocabulary_size = vocabulary_size();
  Batch batch;
  std::size_t begin = 0;
  for (const std::size_t count : plan.groups) {
    if (llama_decode(context, batch.fill(plan.tokens.data(), begin, count)) != 0) {
      return fail(ErrorCode::kInternal, fmt::format("llama_decode failed at position {}", begin));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const float* row = llama_get_logits_ith(context, static_cast<int>(i));
      if (row == nullptr) return fail(ErrorCode::kInternal, "the whole model gave no logits");
      logits.values.insert(logits.values.end(), row, row + logits.vocabulary_size);
    }
    begin += count;
  }
  return logits;
}

}  // namespace salvage::conformance
