#include "random_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/check.h"

namespace salvage::bench {
namespace {

// A power of two, so that a block is drawn by a mask. 1 Mi weights of Q4_K are 590 kB: they stay in
// a second-level cache while blocks are drawn, and quantising them takes a tenth of a second.
constexpr std::int64_t kPoolWeights = 1 << 20;
// f32, f16 and bf16 have blocks of one weight; drawing 32 at a time costs a memcpy, not a loop.
constexpr std::int64_t kBlockWeightsMin = 32;

}  // namespace

std::uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBULL;
  return mixed ^ (mixed >> 31U);
}

float Random::normal() {
  // Box-Muller on two uniform numbers of 53 bits; the first is never 0.
  const double first = (static_cast<double>(next() >> 11U) + 1.0) * 0x1.0p-53;
  const double second = static_cast<double>(next() >> 11U) * 0x1.0p-53;
  return static_cast<float>(std::sqrt(-2.0 * std::log(first)) *
                            std::cos(2.0 * std::numbers::pi * second));
}

const RandomWeights::Pool& RandomWeights::pool(ggml_type type, float sd) {
  const auto [entry, is_new] = pools_.try_emplace({type, sd});
  Pool& pool = entry->second;
  if (!is_new) return pool;

  std::vector<float> weights(kPoolWeights);
  for (float& weight : weights) weight = sd * random_.normal();
  const std::int64_t block_weights = std::max(ggml_blck_size(type), kBlockWeightsMin);
  pool.block_bytes = ggml_row_size(type, block_weights);
  pool.block_count = static_cast<std::size_t>(kPoolWeights / block_weights);
  pool.bytes.resize(pool.block_bytes * pool.block_count);
  ggml_quantize_chunk(type, weights.data(), pool.bytes.data(), 0, 1, kPoolWeights, nullptr);
  return pool;
}

void RandomWeights::fill_matrix(ggml_type type, float sd, std::span<std::byte> out) {
  const Pool& source = pool(type, sd);
  CHECK(out.size() % source.block_bytes == 0);
  const std::uint64_t mask = source.block_count - 1;
  std::byte* target = out.data();
  std::byte* const end = target + out.size();
  for (; target != end; target += source.block_bytes) {
    const std::size_t block = random_.next() & mask;
    std::memcpy(target, source.bytes.data() + block * source.block_bytes, source.block_bytes);
  }
}

void RandomWeights::fill_vector(float mean, float sd, std::span<float> out) {
  for (float& value : out) value = mean + sd * random_.normal();
}

}  // namespace salvage::bench
