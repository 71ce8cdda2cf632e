#include "gateway/prompt_logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace salvage::gateway {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// NaN is behind everything.
float ordered(float logit) {
  return std::isnan(logit) ? kImpossible : logit;
}

// What turns a row's logits into logprobs. In two parts: their sum would swallow the smaller.
struct Scale {
  float highest = kImpossible;
  double log_sum = 0;  // of all, with the highest as 1

  float logprob(float logit) const {
    if (std::isinf(highest)) return kImpossible;
    return static_cast<float>(static_cast<double>(ordered(logit)) - highest - log_sum);
  }
};

Scale scale_of(std::span<const float> logits) {
  Scale scale;
  for (const float logit : logits) scale.highest = std::max(scale.highest, ordered(logit));
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(ordered(logit)) - scale.highest);
  }
  scale.log_sum = std::log(sum);
  return scale;
}

bool likelier(const engine::TokenLogprob& a, const engine::TokenLogprob& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
}

}  // namespace

engine::Logprobs logprobs_in(std::span<const float> logits, TokenId token, std::size_t top_count) {
  const Scale scale = scale_of(logits);
  const auto logprob = [&](std::size_t id) { return scale.logprob(logits[id]); };
  const bool known = token >= 0 && static_cast<std::size_t>(token) < logits.size();
  engine::Logprobs found{
      .chosen = {token, known ? logprob(static_cast<std::size_t>(token)) : kImpossible}, .top = {}};
  std::vector<engine::TokenLogprob>& top = found.top;  // a heap, the least likely in front
  for (std::size_t id = 0; id < logits.size() && top_count > 0; ++id) {
    const engine::TokenLogprob one{static_cast<TokenId>(id), logprob(id)};
    if (top.size() == top_count) {
      if (!likelier(one, top.front())) continue;
      std::pop_heap(top.begin(), top.end(), likelier);
      top.pop_back();
    }
    top.push_back(one);
    std::push_heap(top.begin(), top.end(), likelier);
  }
  std::sort(top.begin(), top.end(), likelier);
  return found;
}

}  // namespace salvage::gateway
