// Logits in brief: top-k with log-sum-exp, and hashes. A vocabulary of 152k floats is 600 KB a row,
// and a sampler looks at a few hundred of them.
//
// Top-k. Each logit becomes a 64-bit key: its order among floats above, its id (reversed, so that
// ties go to the lower id) below. Keys are unique, so every selection has one answer. One pass
// keeps the keys that beat the k-th best so far in a pool of 4k; when the pool is full, nth_element
// throws the lower three quarters out and raises the bar. After a few thousand logits hardly
// anything passes the bar: the pass is a comparison a logit. (A heap does the same with a branch
// miss an insertion; a full nth_element needs all keys in memory.)
//
// Log-sum-exp. exp() costs more than the whole selection, so the sum uses a polynomial without
// branches that the compiler vectorises; relative error 2e-7 before the logarithm.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "wire/step_result.h"
#include "wire/xxh3.h"

namespace salvage::wire {
namespace {

constexpr std::size_t kPoolFactor = 4;

// Same order as floats; NaN lowest; both zeros equal.
std::uint32_t order_of(float logit) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);
  const std::uint32_t ordered = (bits & 0x80000000) != 0 ? ~bits : bits | 0x80000000;
  return std::isnan(logit) ? 0 : ordered;
}

std::uint64_t key_of(float logit, std::size_t id) {
  return (std::uint64_t{order_of(logit)} << 32) | (0xFFFFFFFF - id);
}
std::size_t id_of(std::uint64_t key) {
  return 0xFFFFFFFF - (key & 0xFFFFFFFF);
}

// Leaves the `k` highest keys of a row in `pool`, descending. 1 <= k <= row.size().
void select_top(std::span<const float> row, std::size_t k, std::vector<std::uint64_t>& pool) {
  const auto descending = std::greater<>();
  const auto kth = [&] { return pool.begin() + static_cast<std::ptrdiff_t>(k) - 1; };
  pool.clear();
  std::uint64_t bar = 0;
  for (std::size_t id = 0; id < row.size(); ++id) {
    const std::uint64_t key = key_of(row[id], id);
    if (key < bar) continue;
    pool.push_back(key);
    if (pool.size() < kPoolFactor * k) continue;
    std::nth_element(pool.begin(), kth(), pool.end(), descending);
    pool.resize(k);
    bar = pool.back();
  }
  std::nth_element(pool.begin(), kth(), pool.end(), descending);
  pool.resize(k);
  std::sort(pool.begin(), pool.end(), descending);
}

// e^x for x <= 0: 2^n times a polynomial on [-ln2/2, ln2/2].
float exp_nonpositive(float x) {
  x = x < -87.0F ? -87.0F : x;  // 1e-38: nothing beside the maximum's 1
  const float biased = x * 1.44269504F + 12582912.0F;
  const float n = biased - 12582912.0F;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(biased) - 0x4B400000 + 127;
  return p * std::bit_cast<float>(exponent << 23);
}

float log_sum_exp(std::span<const float> row) {
  float highest = -std::numeric_limits<float>::infinity();
  for (const float logit : row) highest = logit > highest ? logit : highest;
  if (std::isinf(highest)) return highest;
  constexpr std::size_t kBlock = 256;
  std::array<float, kBlock> terms;
  double sum = 0;
  for (std::size_t at = 0; at < row.size(); at += kBlock) {
    const std::size_t count = std::min(kBlock, row.size() - at);
    const float* logits = row.data() + at;
    for (std::size_t i = 0; i < count; ++i) {
      const float below = logits[i] - highest;
      terms[i] = below <= 0.0F ? exp_nonpositive(below) : 0.0F;  // NaN adds nothing.
    }
    for (std::size_t i = 0; i < count; ++i) sum += terms[i];
  }
  return highest + static_cast<float>(std::log(sum));
}

void reduce_to_top(std::span<const float> all_logits, StepResult& result) {
  const std::size_t vocabulary = result.vocabulary_size;
  result.top_k = std::min(result.top_k, result.vocabulary_size);
  std::vector<std::uint64_t> pool;
  pool.reserve(kPoolFactor * result.top_k);
  for (std::size_t i = 0; i < result.row_count; ++i) {
    const auto row = all_logits.subspan(i * vocabulary, vocabulary);
    result.log_sum_exp.push_back(log_sum_exp(row));
    if (result.top_k == 0) continue;
    select_top(row, result.top_k, pool);
    for (const std::uint64_t key : pool) {
      result.ids.push_back(static_cast<TokenId>(id_of(key)));
      result.logits.push_back(row[id_of(key)]);
    }
  }
}

}  // namespace

std::uint64_t hash_logits(std::span<const float> row) {
  return xxh3(float_bytes(row));
}

void reduce_logits(std::span<const float> all_logits, StepResult& result) {
  CHECK(all_logits.size() == std::uint64_t{result.row_count} * result.vocabulary_size);
  result.ids.clear();
  result.logits.clear();
  result.log_sum_exp.clear();
  result.hashes.clear();
  if (result.form == LogitsForm::kTopK) reduce_to_top(all_logits, result);
  if (result.form == LogitsForm::kHash) {
    const std::size_t vocabulary = result.vocabulary_size;
    for (std::size_t i = 0; i < result.row_count; ++i) {
      result.hashes.push_back(hash_logits(all_logits.subspan(i * vocabulary, vocabulary)));
    }
  }
}

}  // namespace salvage::wire
