#include "api/openai/chat_request.h"

#include "api/common_fields.h"
#include "api/limits.h"
#include "api/openai/chat_messages.h"
#include "api/openai/response_format.h"
#include "api/openai/template_options.h"
#include "api/openai/tools.h"

namespace salvage::api {
namespace {

// OpenAI's flag and number, or llama.cpp's number.
void read_chat_logprobs(const Fields& fields, GenerateRequest& request) {
  std::uint32_t probabilities = 0;
  fields.whole("n_probs", probabilities, {0, kLlamaProbabilitiesMax});
  if (probabilities > 0) request.logprobs = probabilities;
  fields.flag("post_sampling_probs", request.probabilities_after_sampling);
  bool wanted = false;
  std::uint32_t top = 0;
  fields.flag("logprobs", wanted);
  fields.whole("top_logprobs", top, {0, kTopLogprobsMax});
  if (wanted) request.logprobs = top;
  if (!wanted && top > 0) fields.refuse("top_logprobs", "needs logprobs to be true");
}

void refuse_other_media(const Fields& fields) {
  const Json* modalities = fields.array("modalities");
  const bool is_text = modalities == nullptr || modalities->empty() ||
                       (modalities->size() == 1 && (*modalities)[0] == "text");
  if (!is_text) fields.unsupported("modalities", "isn't done here: answers are text");
  if (fields.find("audio") != nullptr) {
    fields.unsupported("audio", "isn't done here: answers are text");
  }
  if (fields.find("web_search_options") != nullptr) {
    fields.unsupported("web_search_options", "isn't done here");
  }
}

}  // namespace

void read_chat_request(const Fields& fields, const ParseLimits& limits, GenerateRequest& request) {
  read_common_fields(fields, limits, request);
  read_tokens_max(fields, {"n_predict", "max_completion_tokens", "max_tokens"}, request);
  read_stop(fields, "stop", request.stop);
  read_chat_logprobs(fields, request);
  refuse_other_media(fields);
  ChatWish& chat = request.chat.emplace();
  chat.messages = read_chat_messages(fields, request.model);
  read_chat_tools(fields, chat);
  read_template_options(fields, chat);
  read_continuation(fields, chat);
  if (const Json* format = fields.object("response_format")) {
    read_format(Fields(*format, fields.path("response_format."), fields.complaint()), request);
  }
  check_one_constraint(fields, request);
}

}  // namespace salvage::api
