#include "api/answer_info.h"

#include <algorithm>

namespace salvage::api {

AnswerInfo answer_info(const GenerateRequest& request) {
  AnswerInfo info;
  info.dialect = request.dialect;
  const std::size_t prompts = std::max<std::size_t>(request.prompts.size(), 1);
  info.choices = static_cast<std::uint32_t>(prompts) * request.choices;
  info.choices_per_prompt = request.choices;
  info.include_usage = request.include_usage;
  info.return_progress = request.return_progress;
  info.return_tokens = request.return_tokens;
  info.echo = request.echo;
  info.has_logprobs = request.logprobs.has_value();
  info.probabilities_after_sampling = request.probabilities_after_sampling;
  info.response_fields = request.response_fields;
  info.custom_tools = request.custom_tools;
  info.response_echo = request.response_echo;
  return info;
}

}  // namespace salvage::api
