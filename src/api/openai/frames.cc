#include "api/openai/frames.h"

#include "api/sse.h"
#include "api/value_json.h"

namespace salvage::api {

Json openai_frame(const AnswerInfo& info, const ObjectNames& names) {
  Json json{{"id", std::string(names.id_prefix) + info.unique},
            {"object", names.object},
            {"created", info.created_s},
            {"model", info.model}};
  if (!info.fingerprint.empty()) json["system_fingerprint"] = info.fingerprint;
  return json;
}

Json logprobs_object(std::span<const TokenLogprob> tokens) {
  Json json = Json::object();
  json["content"] = openai_logprobs(tokens);
  return json;
}

std::string openai_failure(const ApiError& error, const AnswerInfo& info) {
  std::string bytes = sse_data(error_json(error, dress_of(info.dialect), info.request_id));
  bytes += kSseDone;
  return bytes;
}

}  // namespace salvage::api
