// Logits in brief: top-k with log-sum-exp, and hashes. A vocabulary of 152k floats is 600 KB a row,
// and a sampler looks at a few hundred of them.
//
// Top-k. Each logit becomes a 64-bit key: its order among floats above, its id (reversed, so that
// ties go to the lower id) below. Keys are unique, so every selection has one answer. One pass
// keeps the keys that beat the k-th best so far in a pool of 4k; when the pool is full, nth_element
// throws the lower three quarters out and raises the bar. After a few thousand logits hardly
// anything passes the bar, so a block of logits whose maximum is below it is skipped as a whole:
// the pass is a vectorised maximum. (A heap does the same with a branch miss an insertion; a full
// nth_element needs all keys in memory.)
//
// Log-sum-exp. exp() costs more than the whole selection, so the sum uses a polynomial without
// branches that the compiler vectorises; relative error 2e-7 before the logarithm. Maxima and sums
// run in kLanes independent lanes: one chain of additions would wait four cycles for each.

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
constexpr std::size_t kBlock = 256;  // logits looked at together
constexpr std::size_t kLanes = 16;   // one AVX-512 register, two of AVX2

// NaN is no maximum. -infinity for nothing.
float highest_of(std::span<const float> logits) {
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  std::size_t at = 0;
  for (; at + kLanes <= logits.size(); at += kLanes) {
    const float* block = logits.data() + at;
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = block[i] > lanes[i] ? block[i] : lanes[i];
  }
  float highest = -std::numeric_limits<float>::infinity();
  for (const float lane : lanes) highest = lane > highest ? lane : highest;
  for (; at < logits.size(); ++at) highest = logits[at] > highest ? logits[at] : highest;
  return highest;
}

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

// The best keys seen so far, and the bar that a key must pass to be among the best k.
class TopKeys {
 public:
  TopKeys(std::size_t k, std::vector<std::uint64_t>& pool) : k_(k), pool_(pool) { pool_.clear(); }

  // Whether a logit this high could still be wanted; ties and NaN are left to add().
  bool may_pass(float highest) const { return !has_bar_ || order_of(highest) >= bar_ >> 32; }
  void add(std::uint64_t key) {
    if (key < bar_) return;
    pool_.push_back(key);
    if (pool_.size() < kPoolFactor * k_) return;
    keep_best();
    bar_ = *std::min_element(pool_.begin(), pool_.end());
    has_bar_ = true;
  }
  void finish() {
    keep_best();
    std::sort(pool_.begin(), pool_.end(), std::greater<>());
  }

 private:
  void keep_best() {
    const auto kth = pool_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
    std::nth_element(pool_.begin(), kth, pool_.end(), std::greater<>());
    pool_.resize(k_);
  }

  std::size_t k_;
  std::vector<std::uint64_t>& pool_;
  std::uint64_t bar_ = 0;
  bool has_bar_ = false;
};

// Leaves the `k` highest keys of a row in `pool`, descending. 1 <= k <= row.size().
void select_top(std::span<const float> row, std::size_t k, std::vector<std::uint64_t>& pool) {
  TopKeys top(k, pool);
  for (std::size_t begin = 0; begin < row.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, row.size());
    if (!top.may_pass(highest_of(row.subspan(begin, end - begin)))) continue;
    for (std::size_t id = begin; id < end; ++id) top.add(key_of(row[id], id));
  }
  top.finish();
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
  const float highest = highest_of(row);
  if (std::isinf(highest)) return highest;
  std::array<float, kBlock> terms;
  double sum = 0;
  for (std::size_t at = 0; at < row.size(); at += kBlock) {
    const std::size_t count = std::min(kBlock, row.size() - at);
    const float* logits = row.data() + at;
    for (std::size_t i = 0; i < count; ++i) {
      const float below = logits[i] - highest;
      terms[i] = below <= 0.0F ? exp_nonpositive(below) : 0.0F;  // NaN adds nothing.
    }
    std::fill(terms.begin() + static_cast<std::ptrdiff_t>(count), terms.end(), 0.0F);
    // At most 16 terms of at most 1 a lane: no digit is lost before the doubles.
    std::array<float, kLanes> lanes{};
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += terms[i + lane];
    }
    for (const float lane : lanes) sum += lane;
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
