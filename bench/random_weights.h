#pragma once

// Random weights in any ggml type, as fast as the disk takes them. Quantising two billion numbers
// takes minutes; so a pool of a million is quantised once a (type, scale), and tensors are composed
// of blocks drawn from it at random. A benchmark feels no difference: every block is a properly
// quantised sample of N(0, sd), and rows are combinations of thousands of blocks.
// Not thread-safe; equal seeds give equal bytes.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <ggml.h>

namespace salvage::bench {

// SplitMix64: small, fast, and the same numbers with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  float normal();  // N(0, 1)

 private:
  std::uint64_t state_;
};

class RandomWeights {
 public:
  explicit RandomWeights(std::uint64_t seed) : random_(seed) {}

  // Fills `out` with N(0, sd) of `type`; its size must be a whole number of the pool's blocks,
  // which rows of a multiple of 32 (K-quants: 256) weights always give.
  void fill_matrix(ggml_type type, float sd, std::span<std::byte> out);
  // Plain N(mean, sd) in f32.
  void fill_vector(float mean, float sd, std::span<float> out);

 private:
  struct Pool {
    std::vector<std::byte> bytes;
    std::size_t block_bytes = 0;
    std::size_t block_count = 0;
  };
  const Pool& pool(ggml_type type, float sd);

  Random random_;
  std::map<std::pair<ggml_type, float>, Pool> pools_;
};

}  // namespace salvage::bench
