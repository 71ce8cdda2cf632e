#include "random_weights.h"

#include <cmath>

namespace salvage::conformance {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// FNV-1a: std::hash may differ between standard libraries.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const char letter : name) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 1099511628211ULL;
  }
  return hash;
}

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31);
}

// Sum of four uniform numbers, which is close enough to normal, scaled to variance 1.
float next_normal(std::uint64_t& state) {
  const std::uint64_t bits = next_random(state);
  std::int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<std::int32_t>((bits >> (16 * i)) & 0xffff);
  constexpr float kMean = 2.0F * 65535.0F;
  constexpr float kDeviation = 65536.0F * 0.57735027F;  // sqrt(4 / 12)
  return (static_cast<float>(sum) - kMean) / kDeviation;
}

}  // namespace

WeightShape sane_weights(std::string_view name, std::int64_t fan_in, int dimension_count) {
  const bool bias = contains(name, ".bias");
  if (contains(name, "rope_f")) return {1.0F, 0.1F};  // Factors divide frequencies: never near 0.
  if (contains(name, "norm") && !bias) return {1.0F, 0.1F};
  if (contains(name, "scale") && !bias) return {1.0F, 0.1F};
  if (contains(name, "ssm_a")) return {-1.0F, 0.2F};  // A state that decays.
  if (contains(name, "token_embd")) return {0.0F, 1.0F};
  if (bias || dimension_count < 2) return {0.0F, 0.1F};
  return {0.0F, 1.5F / std::sqrt(static_cast<float>(fan_in))};
}

std::vector<float> random_values(std::string_view name, std::uint64_t seed, std::size_t count,
                                 WeightShape shape) {
  std::uint64_t state = hash_name(name) ^ (seed * 0x9e3779b97f4a7c15ULL);
  std::vector<float> values(count);
  for (float& value : values) value = shape.mean + shape.deviation * next_normal(state);
  return values;
}

}  // namespace salvage::conformance
