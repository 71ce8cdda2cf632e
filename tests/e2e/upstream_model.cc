#include "upstream_model.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "llama.h"

namespace salvage::e2e {
namespace {

constexpr std::uint32_t kBatchRowsMax = 128;

llama_context_params context_params(const UpstreamOptions& options) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = options.context;
  params.n_batch = kBatchRowsMax;
  params.n_ubatch = kBatchRowsMax;
  params.n_seq_max = 1;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.type_k = GGML_TYPE_Q8_0;
  params.type_v = GGML_TYPE_Q8_0;
  return params;
}

void complaints_only(ggml_log_level level, const char* text, void* /*unused*/) {
  if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

}  // namespace

struct UpstreamModel::State {
  struct Free {
    void operator()(llama_model* unused) const { llama_model_free(unused); }
    void operator()(llama_context* unused) const { llama_free(unused); }
  };
  std::unique_ptr<llama_model, Free> model;
  std::unique_ptr<llama_context, Free> context;
};

UpstreamModel::UpstreamModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
UpstreamModel::UpstreamModel(UpstreamModel&&) noexcept = default;
UpstreamModel& UpstreamModel::operator=(UpstreamModel&&) noexcept = default;
UpstreamModel::~UpstreamModel() = default;

Result<UpstreamModel> UpstreamModel::load(const std::filesystem::path& path,
                                          const UpstreamOptions& options) {
  llama_log_set(complaints_only, nullptr);
  auto state = std::make_unique<State>();
  llama_model_params params = llama_model_default_params();
  params.use_extra_bufts = options.repack;
  state->model.reset(llama_model_load_from_file(path.c_str(), params));
  if (!state->model) {
    return fail(ErrorCode::kNotFound, fmt::format("libllama does not load {}", path.string()));
  }
  state->context.reset(llama_init_from_model(state->model.get(), context_params(options)));
  if (!state->context) return fail(ErrorCode::kInternal, "libllama makes no context");
  return UpstreamModel(std::move(state));
}

std::uint32_t UpstreamModel::vocabulary_size() const {
  return static_cast<std::uint32_t>(
      llama_vocab_n_tokens(llama_model_get_vocab(state_->model.get())));
}

std::vector<TokenId> UpstreamModel::tokenize(const std::string& text) const {
  std::vector<TokenId> tokens(text.size() + 2);
  const int count =
      llama_tokenize(llama_model_get_vocab(state_->model.get()), text.data(),
                     static_cast<int>(text.size()), tokens.data(), static_cast<int>(tokens.size()),
                     /*add_special=*/true, /*parse_special=*/false);
  tokens.resize(static_cast<std::size_t>(std::max(count, 0)));
  return tokens;
}

void UpstreamModel::clear() {
  llama_memory_clear(llama_get_memory(state_->context.get()), true);
}

Result<void> UpstreamModel::step(std::span<const TokenId> tokens, std::uint32_t position,
                                 std::vector<float>& logits) {
  llama_batch batch = llama_batch_init(static_cast<int>(tokens.size()), 0, 1);
  batch.n_tokens = static_cast<int>(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = static_cast<llama_pos>(position + i);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  const int failed = llama_decode(state_->context.get(), batch);
  llama_batch_free(batch);
  if (failed != 0) return fail(ErrorCode::kInternal, fmt::format("llama_decode gave {}", failed));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const float* row = llama_get_logits_ith(state_->context.get(), static_cast<int>(i));
    if (row == nullptr) return fail(ErrorCode::kInternal, "libllama gave no logits");
    logits.insert(logits.end(), row, row + vocabulary_size());
  }
  return {};
}

Result<std::vector<float>> UpstreamModel::logits(std::span<const TokenId> tokens,
                                                 std::uint32_t batch_rows) {
  clear();
  std::vector<float> all;
  for (std::size_t begin = 0; begin < tokens.size(); begin += batch_rows) {
    const std::size_t rows = std::min<std::size_t>(batch_rows, tokens.size() - begin);
    RETURN_IF_ERROR(step(tokens.subspan(begin, rows), static_cast<std::uint32_t>(begin), all));
  }
  return all;
}

Result<UpstreamModel::Answer> UpstreamModel::greedy(std::span<const TokenId> prompt,
                                                    std::uint32_t count) {
  clear();
  return decode({}, prompt, count);
}

Result<UpstreamModel::Answer> UpstreamModel::go_on(const Answer& before,
                                                   std::span<const TokenId> more,
                                                   std::uint32_t count) {
  std::vector<TokenId> tokens{before.tokens.back()};
  tokens.insert(tokens.end(), more.begin(), more.end());
  return decode({.tokens = {}, .logits = before.logits}, tokens, count);
}

// One at a time, behind the positions that `answer` has logits of.
Result<UpstreamModel::Answer> UpstreamModel::decode(Answer answer, std::span<const TokenId> tokens,
                                                    std::uint32_t count) {
  const std::size_t width = vocabulary_size();
  const auto compute = [&](TokenId token) {
    const auto position = static_cast<std::uint32_t>(answer.logits.size() / width);
    return step(std::span(&token, 1), position, answer.logits);
  };
  for (const TokenId token : tokens) RETURN_IF_ERROR(compute(token));
  for (;;) {
    answer.tokens.push_back(argmax(std::span<const float>(answer.logits).last(width)));
    if (answer.tokens.size() == count) return answer;
    RETURN_IF_ERROR(compute(answer.tokens.back()));
  }
}

TokenId argmax(std::span<const float> row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

}  // namespace salvage::e2e
