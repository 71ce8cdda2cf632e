#include "api/openai/completions_request.h"

#include <fmt/format.h>

#include "api/common_fields.h"
#include "api/limits.h"
#include "api/prompt_field.h"

namespace salvage::api {
namespace {

void refuse_rankings(const Fields& fields, const GenerateRequest& request) {
  std::uint32_t best_of = request.choices;
  fields.whole("best_of", best_of, {0, kChoicesMax});
  if (best_of > request.choices) {
    fields.unsupported("best_of", "isn't done here beyond n: answers aren't ranked");
  }
  std::string suffix;
  fields.text("suffix", suffix, kBodyBytesMax);
  if (!suffix.empty()) fields.unsupported("suffix", "isn't done here: nothing is filled in");
}

}  // namespace

void check_choice_total(const Fields& fields, const GenerateRequest& request) {
  if (request.prompts.size() * request.choices <= kChoicesMax) return;
  fields.refuse("prompt", fmt::format("asks for {} answers, at most {} are made to one request",
                                      request.prompts.size() * request.choices, kChoicesMax));
}

void read_completions_request(const Fields& fields, const ParseLimits& limits,
                              GenerateRequest& request) {
  read_common_fields(fields, limits, request);
  read_tokens_max(fields, {"n_predict", "max_completion_tokens", "max_tokens"}, request);
  read_stop(fields, "stop", request.stop);
  const bool is_llama = fields.find("n_probs") != nullptr;
  if (is_llama || fields.find("logprobs") != nullptr) {
    std::uint32_t count = 0;
    fields.whole(is_llama ? "n_probs" : "logprobs", count, {0, kTopLogprobsMax});
    if (count > 0 || !is_llama) request.logprobs = count;
  }
  fields.flag("echo", request.echo);
  read_prompts(fields, "prompt", limits, request.prompts);
  check_choice_total(fields, request);
  refuse_rankings(fields, request);
  check_one_constraint(fields, request);
}

}  // namespace salvage::api
