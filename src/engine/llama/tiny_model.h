#pragma once

// For tests: a llama of four small layers with random but sane weights (norms near 1, matrices of
// sd 1.5/sqrt(fan_in)), whole and cut, as files in a folder of their own that goes with the object.
// Sane weights matter: with tiny ones an error would vanish in rounding.

#include <filesystem>
#include <string>
#include <vector>

#include <ggml.h>

#include "base/ids.h"
#include "engine/stage_engine.h"

namespace salvage::engine {

inline constexpr std::uint32_t kTinyLayers = 4;
inline constexpr std::uint32_t kTinyWidth = 256;
inline constexpr std::uint32_t kTinyVocabulary = 300;

class TinyModel {
 public:
  // Matrices of `type`; 256 wide, so K-quants fit.
  explicit TinyModel(ggml_type type, std::uint64_t seed = 1);
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;
  ~TinyModel();

  std::filesystem::path whole() const { return folder_ / "whole.gguf"; }
  // Both are written on first use.
  std::filesystem::path shard(LayerRange layers) const;
  std::filesystem::path table() const;

 private:
  std::filesystem::path folder_;
};

// Room for 4 sequences of 64 tokens, 16 rows a micro-batch.
StageOptions tiny_options(const std::filesystem::path& weights);

}  // namespace salvage::engine
