#include "api/generate_request.h"

#include "api/anthropic/messages_request.h"
#include "api/limits.h"
#include "api/llama/completion_request.h"
#include "api/openai/chat_request.h"
#include "api/openai/completions_request.h"
#include "api/openai/responses_request.h"

namespace salvage::api {
namespace {

void read_dialect(const Fields& fields, const ParseLimits& limits, GenerateRequest& request) {
  switch (request.dialect) {
    case Dialect::kChat:
      return read_chat_request(fields, limits, request);
    case Dialect::kCompletions:
      return read_completions_request(fields, limits, request);
    case Dialect::kResponses:
      return read_responses_request(fields, limits, request);
    case Dialect::kMessages:
      return read_messages_request(fields, limits, request);
    case Dialect::kLlama:
      return read_llama_completion(fields, limits, request);
  }
}

}  // namespace

Dress dress_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::kChat:
    case Dialect::kCompletions:
    case Dialect::kResponses:
      return Dress::kOpenAi;
    case Dialect::kMessages:
      return Dress::kAnthropic;
    case Dialect::kLlama:
      return Dress::kLlama;
  }
  return Dress::kOpenAi;
}

Parsed<Json> parse_object(std::string_view body) {
  if (body.size() > kBodyBytesMax) {
    return fail(ApiError{.kind = ErrorKind::kRequestTooLarge,
                         .message = "the body has more than " + std::to_string(kBodyBytesMax) +
                                    " bytes; send less"});
  }
  auto json = parse_bounded_json(body, kBodyLimits);
  if (!json) {
    return fail(ApiError{.kind = ErrorKind::kInvalidJson, .message = json.error().message()});
  }
  if (!json->is_object()) {
    return fail(
        ApiError{.kind = ErrorKind::kInvalidJson, .message = "the body must be one JSON object"});
  }
  return std::move(*json);
}

Parsed<GenerateRequest> parse_request(Dialect dialect, std::string_view body,
                                      const ParseLimits& limits) {
  ASSIGN_OR_RETURN(const Json json, parse_object(body));
  GenerateRequest request;
  request.dialect = dialect;
  Complaint complaint;
  read_dialect(Fields(json, "", complaint), limits, request);
  RETURN_IF_ERROR(complaint.result());
  return request;
}

}  // namespace salvage::api
