#pragma once

// What can go wrong between a client and us: one list, and three dresses for it, because clients of
// OpenAI, of Anthropic and of llama.cpp each read their own. A code is stable and names the fault;
// a message is English and says what to do. Pure functions and tables, any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "api/bounded_json.h"
#include "base/result.h"

namespace salvage::api {

enum class ErrorKind {
  kInvalidJson,
  kInvalidValue,
  kMissingValue,
  kContextLengthExceeded,
  kInvalidJsonSchema,
  kTemplateRefused,
  kMissingApiKey,
  kInvalidApiKey,
  kExpiredApiKey,
  kModelNotAllowed,
  kIpNotAllowed,
  kScopeMissing,
  kForeignOrigin,
  kModelNotFound,
  kRequestNotFound,
  kUnknownUrl,
  kMethodNotAllowed,
  kRequestTooLarge,
  kRateLimited,
  kQueueFull,
  kQuotaUsedUp,
  kClientClosed,
  kRequestCancelled,
  kInternal,
  kNotSupported,
  kUpstreamError,
  kNodeLost,
  kModelLoading,
  kNoCapacity,
  kClusterDegraded,
  kUpstreamTimeout,
};

// Which clients read it.
enum class Dress { kOpenAi, kAnthropic, kLlama };

enum class Retry { kNever, kPerhaps, kLater };

struct ErrorFacts {
  ErrorKind kind;
  std::string_view code;
  int status;  // HTTP; llama.cpp repeats it as a number within the body
  std::string_view openai_type;
  std::string_view llama_type;
  std::string_view anthropic_type;
  int anthropic_status;
  Retry retry;
  int retry_after_seconds;  // what Retry-After says if the error doesn't; 0: nothing
  std::string_view meaning;
};

std::span<const ErrorFacts> all_error_facts();  // in the order of ErrorKind
const ErrorFacts& facts_of(ErrorKind kind);

// Both numbers of a prompt that doesn't fit.
struct ContextOverflow {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t context_tokens = 0;
};

struct ApiError {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  std::string param;  // the field at fault, "messages[2].role"; empty: none
  std::string hint;   // "did you mean /v1/models?"
  std::string allow;  // of a method that isn't: what the header Allow says
  std::optional<int> retry_after_seconds;
  std::optional<ContextOverflow> overflow;
};

// A value, or why there is none.
template <typename T>
class [[nodiscard]] Parsed : public tl::expected<T, ApiError> {
 public:
  using tl::expected<T, ApiError>::expected;
};

// An error from below, whose code says what the caller can do.
ApiError api_error(const Error& error);

// The message that agents look for when they shorten a conversation by themselves.
ApiError context_length_exceeded(const ContextOverflow& overflow);

struct ErrorAnswer {
  int status = 500;
  std::string body;                                          // JSON
  std::vector<std::pair<std::string, std::string>> headers;  // lower case
};

// The body as a value, as it stands within a stream too.
Json error_json(const ApiError& error, Dress dress, std::string_view request_id);
ErrorAnswer render_error(const ApiError& error, Dress dress, std::string_view request_id);

}  // namespace salvage::api

namespace salvage {

// So that RETURN_IF_ERROR and ASSIGN_OR_RETURN pass on a Parsed's error too.
inline tl::unexpected<api::ApiError> fail(api::ApiError error) {
  return tl::unexpected<api::ApiError>(std::move(error));
}

}  // namespace salvage
