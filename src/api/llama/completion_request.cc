#include "api/llama/completion_request.h"

#include "api/common_fields.h"
#include "api/limits.h"
#include "api/openai/completions_request.h"
#include "api/prompt_field.h"

namespace salvage::api {

void read_llama_completion(const Fields& fields, const ParseLimits& limits,
                           GenerateRequest& request) {
  read_common_fields(fields, limits, request);
  read_tokens_max(fields, {"n_predict", "max_completion_tokens", "max_tokens"}, request);
  read_stop(fields, "stop", request.stop);
  std::uint32_t probabilities = 0;
  const char* key = fields.find("n_probs") != nullptr ? "n_probs" : "logprobs";
  fields.whole(key, probabilities, {0, kLlamaProbabilitiesMax});
  if (probabilities > 0) request.logprobs = probabilities;
  fields.flag("post_sampling_probs", request.probabilities_after_sampling);
  read_prompts(fields, "prompt", limits, request.prompts);
  check_choice_total(fields, request);
  check_one_constraint(fields, request);
}

}  // namespace salvage::api
