#pragma once

// The truth that answers are compared with: a whole model in this process, decoded through plain
// llama.h and none of salvage's code, with the settings that salvage has by default: flash
// attention, q8_0 KV cache, one thread. Single threaded. Failure: a Result, or libllama aborts.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace salvage::e2e {

struct UpstreamOptions {
  std::uint32_t context = 512;  // tokens
  bool repack = true;           // libllama's own default
};

class UpstreamModel {
 public:
  static Result<UpstreamModel> load(const std::filesystem::path& path,
                                    const UpstreamOptions& options);
  UpstreamModel(UpstreamModel&&) noexcept;
  UpstreamModel& operator=(UpstreamModel&&) noexcept;
  ~UpstreamModel();

  std::uint32_t vocabulary_size() const;
  std::vector<TokenId> tokenize(const std::string& text) const;

  // Forgets everything, computes `tokens` in batches of `batch_rows`, and gives the logits of every
  // position, one after the other.
  Result<std::vector<float>> logits(std::span<const TokenId> tokens, std::uint32_t batch_rows);

  struct Answer {
    std::vector<TokenId> tokens;
    std::vector<float> logits;  // of every position: the prompt's, then those of all answer tokens
                                // but the last, which is never computed
  };
  // Forgets everything and decodes: the prompt one token at a time, then always the likeliest.
  Result<Answer> greedy(std::span<const TokenId> prompt, std::uint32_t count);
  // Goes on from `before`, which must be the last thing decoded: its last token and `more`, one at
  // a time, then always the likeliest. The tokens are the new ones, the logits those of every
  // position.
  Result<Answer> go_on(const Answer& before, std::span<const TokenId> more, std::uint32_t count);

 private:
  struct State;
  explicit UpstreamModel(std::unique_ptr<State> state);
  Result<void> step(std::span<const TokenId> tokens, std::uint32_t position,
                    std::vector<float>& logits);
  Result<Answer> decode(Answer answer, std::span<const TokenId> tokens, std::uint32_t count);
  void clear();

  std::unique_ptr<State> state_;
};

// The likeliest token of one row; of equals the first.
TokenId argmax(std::span<const float> row);

}  // namespace salvage::e2e
