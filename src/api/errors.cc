#include "api/errors.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace salvage::api {
namespace {

constexpr std::string_view kInvalid = "invalid_request_error";
constexpr std::string_view kAuthentication = "authentication_error";
constexpr std::string_view kPermission = "permission_error";
constexpr std::string_view kNotFoundType = "not_found_error";
constexpr std::string_view kServer = "server_error";
constexpr std::string_view kUnavailableType = "unavailable_error";
constexpr std::string_view kRateLimit = "rate_limit_error";
constexpr std::string_view kApi = "api_error";
constexpr std::string_view kOverloaded = "overloaded_error";

// 529 is Anthropic's own status for "too much to do".
constexpr int kAnthropicOverloaded = 529;

constexpr ErrorFacts kErrorFacts[] = {
    {ErrorKind::kInvalidJson, "invalid_json", 400, kInvalid, kInvalid, kInvalid, 400, Retry::kNever,
     0, "The body is no JSON, or nests or lists more than is taken."},
    {ErrorKind::kInvalidValue, "invalid_value", 400, kInvalid, kInvalid, kInvalid, 400,
     Retry::kNever, 0, "A field has a wrong type or is out of its range; `param` names it."},
    {ErrorKind::kMissingValue, "missing_required_parameter", 400, kInvalid, kInvalid, kInvalid, 400,
     Retry::kNever, 0, "A field that is needed isn't there; `param` names it."},
    {ErrorKind::kContextLengthExceeded, "context_length_exceeded", 400, kInvalid,
     "exceed_context_size_error", kInvalid, 400, Retry::kNever, 0,
     "The prompt has more tokens than the context; the message has both numbers."},
    {ErrorKind::kInvalidJsonSchema, "invalid_json_schema", 400, kInvalid, kInvalid, kInvalid, 400,
     Retry::kNever, 0, "The JSON schema or grammar can't be used; the message says where."},
    {ErrorKind::kTemplateRefused, "chat_template_error", 400, kInvalid, kInvalid, kInvalid, 400,
     Retry::kNever, 0, "The model's chat template refuses these messages; the message says why."},
    {ErrorKind::kMissingApiKey, "missing_api_key", 401, kAuthentication, kAuthentication,
     kAuthentication, 401, Retry::kNever, 0, "The request carries no key."},
    {ErrorKind::kInvalidApiKey, "invalid_api_key", 401, kAuthentication, kAuthentication,
     kAuthentication, 401, Retry::kNever, 0, "The key isn't one of this cluster's."},
    {ErrorKind::kExpiredApiKey, "expired_api_key", 401, kAuthentication, kAuthentication,
     kAuthentication, 401, Retry::kNever, 0, "The key's time is over."},
    {ErrorKind::kModelNotAllowed, "model_not_allowed", 403, kPermission, kPermission, kPermission,
     403, Retry::kNever, 0, "The key may not use this model."},
    {ErrorKind::kIpNotAllowed, "ip_not_allowed", 403, kPermission, kPermission, kPermission, 403,
     Retry::kNever, 0, "The key may not be used from this address."},
    {ErrorKind::kScopeMissing, "scope_missing", 403, kPermission, kPermission, kPermission, 403,
     Retry::kNever, 0, "The key may not do this."},
    {ErrorKind::kForeignOrigin, "foreign_origin", 403, kPermission, kPermission, kPermission, 403,
     Retry::kNever, 0, "A web page of another server asks one that wants no key."},
    {ErrorKind::kModelNotFound, "model_not_found", 404, kInvalid, kNotFoundType, kNotFoundType, 404,
     Retry::kNever, 0, "No model of this name is served; the message lists those that are."},
    {ErrorKind::kRequestNotFound, "request_not_found", 404, kInvalid, kNotFoundType, kNotFoundType,
     404, Retry::kNever, 0, "No request of this id is under way."},
    {ErrorKind::kUnknownUrl, "unknown_url", 404, kInvalid, kNotFoundType, kNotFoundType, 404,
     Retry::kNever, 0, "Nothing is served at this path; `hint` names the nearest that is."},
    {ErrorKind::kMethodNotAllowed, "not_supported", 405, kInvalid, kInvalid, kInvalid, 405,
     Retry::kNever, 0, "The path is served, but not for this method; see the header Allow."},
    {ErrorKind::kRequestTooLarge, "request_too_large", 413, kInvalid, kInvalid, "request_too_large",
     413, Retry::kNever, 0, "The body has more bytes than are taken."},
    {ErrorKind::kRateLimited, "rate_limit_exceeded", 429, kRateLimit, kRateLimit, kRateLimit, 429,
     Retry::kLater, 5, "The key has made its requests for now."},
    {ErrorKind::kQueueFull, "queue_full", 429, kRateLimit, kRateLimit, kRateLimit, 429,
     Retry::kLater, 10, "As many requests wait as may."},
    {ErrorKind::kQuotaUsedUp, "insufficient_quota", 429, "insufficient_quota", kRateLimit,
     kRateLimit, 429, Retry::kNever, 0, "The key's quota is used up until it is reset."},
    {ErrorKind::kClientClosed, "client_closed", 499, kInvalid, kInvalid, kInvalid, 499,
     Retry::kNever, 0, "The client went away; only in logs."},
    {ErrorKind::kRequestCancelled, "request_cancelled", 499, kInvalid, kInvalid, kInvalid, 499,
     Retry::kNever, 0, "Who runs the cluster has ended this request."},
    {ErrorKind::kInternal, "internal_error", 500, kServer, kServer, kApi, 500, Retry::kPerhaps, 0,
     "A fault of ours; the log has more."},
    {ErrorKind::kNotSupported, "not_supported", 501, "not_supported_error", "not_supported_error",
     kInvalid, 501, Retry::kNever, 0, "Known, but not done here; `param` names it."},
    {ErrorKind::kUpstreamError, "upstream_error", 502, kServer, kServer, kApi, 502, Retry::kLater,
     2, "A stage of the pipeline failed."},
    {ErrorKind::kNodeLost, "node_lost", 502, kServer, kServer, kApi, 502, Retry::kLater, 5,
     "A machine of the pipeline is gone; the cluster looks for another way."},
    {ErrorKind::kModelLoading, "model_loading", 503, kServer, kUnavailableType, kOverloaded,
     kAnthropicOverloaded, Retry::kLater, 10, "The model is being loaded."},
    {ErrorKind::kNoCapacity, "no_capacity", 503, kServer, kUnavailableType, kOverloaded,
     kAnthropicOverloaded, Retry::kLater, 30, "No room was free in time."},
    {ErrorKind::kClusterDegraded, "cluster_degraded", 503, kServer, kUnavailableType, kOverloaded,
     kAnthropicOverloaded, Retry::kLater, 15, "Machines are missing that the model needs."},
    {ErrorKind::kUpstreamTimeout, "upstream_timeout", 504, kServer, kServer, kApi, 504,
     Retry::kPerhaps, 0, "The pipeline didn't answer in time."},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kErrorFacts); ++i) {
    if (kErrorFacts[i].kind != static_cast<ErrorKind>(i)) return false;
  }
  return std::size(kErrorFacts) == static_cast<std::size_t>(ErrorKind::kUpstreamTimeout) + 1;
}
static_assert(in_order());

ErrorKind kind_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return ErrorKind::kInvalidValue;
    case ErrorCode::kNotFound:
      return ErrorKind::kModelNotFound;
    case ErrorCode::kUnauthenticated:
      return ErrorKind::kInvalidApiKey;
    case ErrorCode::kPermissionDenied:
      return ErrorKind::kScopeMissing;
    case ErrorCode::kResourceExhausted:
      return ErrorKind::kNoCapacity;
    case ErrorCode::kUnavailable:
      return ErrorKind::kNodeLost;
    case ErrorCode::kDeadlineExceeded:
      return ErrorKind::kUpstreamTimeout;
    case ErrorCode::kStalePlan:
      return ErrorKind::kClusterDegraded;
    case ErrorCode::kCancelled:
      return ErrorKind::kClientClosed;
    case ErrorCode::kUnsupported:
      return ErrorKind::kNotSupported;
    case ErrorCode::kCorrupt:
    case ErrorCode::kInternal:
      return ErrorKind::kInternal;
  }
  return ErrorKind::kInternal;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json openai_error(const ApiError& error, const ErrorFacts& facts) {
  Json inner{{"message", error.message},
             {"type", facts.openai_type},
             {"param", text_or_null(error.param)},
             {"code", facts.code}};
  if (!error.hint.empty()) inner["hint"] = error.hint;
  Json json = Json::object();
  json["error"] = std::move(inner);
  json["src"] = "salvage";  // a proxy in between may have faults of its own
  return json;
}

// Clients of Anthropic look for words of their own to see that a conversation is too long.
std::string anthropic_message(const ApiError& error) {
  if (!error.overflow) return error.message;
  return fmt::format("prompt is too long: {} tokens > {} maximum", error.overflow->prompt_tokens,
                     error.overflow->context_tokens);
}

Json anthropic_error(const ApiError& error, const ErrorFacts& facts, std::string_view request_id) {
  Json inner{{"type", facts.anthropic_type}, {"message", anthropic_message(error)}};
  Json json{{"type", "error"}};
  json["error"] = std::move(inner);
  json["request_id"] = request_id;
  return json;
}

Json llama_error(const ApiError& error, const ErrorFacts& facts) {
  Json inner{{"code", facts.status}, {"message", error.message}, {"type", facts.llama_type}};
  if (!error.param.empty()) inner["param"] = error.param;
  if (!error.hint.empty()) inner["hint"] = error.hint;
  if (error.overflow) {
    inner["n_prompt_tokens"] = error.overflow->prompt_tokens;
    inner["n_ctx"] = error.overflow->context_tokens;
  }
  Json json = Json::object();
  json["error"] = std::move(inner);
  return json;
}

}  // namespace

std::span<const ErrorFacts> all_error_facts() {
  return kErrorFacts;
}

const ErrorFacts& facts_of(ErrorKind kind) {
  return kErrorFacts[static_cast<std::size_t>(kind)];
}

ApiError api_error(const Error& error) {
  return {.kind = kind_of(error.code()), .message = error.message()};
}

ApiError context_length_exceeded(const ContextOverflow& overflow) {
  return {.kind = ErrorKind::kContextLengthExceeded,
          .message = fmt::format("This model's maximum context length is {} tokens. However, your "
                                 "request has {} tokens. Please shorten it.",
                                 overflow.context_tokens, overflow.prompt_tokens),
          .overflow = overflow};
}

Json error_json(const ApiError& error, Dress dress, std::string_view request_id) {
  const ErrorFacts& facts = facts_of(error.kind);
  switch (dress) {
    case Dress::kOpenAi:
      return openai_error(error, facts);
    case Dress::kAnthropic:
      return anthropic_error(error, facts, request_id);
    case Dress::kLlama:
      return llama_error(error, facts);
  }
  return openai_error(error, facts);
}

ErrorAnswer render_error(const ApiError& error, Dress dress, std::string_view request_id) {
  const ErrorFacts& facts = facts_of(error.kind);
  ErrorAnswer answer{
      .status = dress == Dress::kAnthropic ? facts.anthropic_status : facts.status,
      .body = to_line(error_json(error, dress, request_id)),
  };
  if (facts.retry == Retry::kLater) {
    const int seconds = error.retry_after_seconds.value_or(facts.retry_after_seconds);
    answer.headers.emplace_back("retry-after", std::to_string(std::max(seconds, 1)));
  } else if (facts.retry == Retry::kNever && (facts.status == 429 || facts.status >= 500)) {
    // The official clients try these again unless told not to.
    answer.headers.emplace_back("x-should-retry", "false");
  }
  if (!error.allow.empty()) answer.headers.emplace_back("allow", error.allow);
  return answer;
}

}  // namespace salvage::api
