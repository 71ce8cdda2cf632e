#pragma once

// Which of our endpoints a request line means. Clients are told all kinds of base addresses, so a
// path counts with and without /v1, doubled slashes and a doubled /v1 are one, and the query is
// nobody's business here. What isn't served gets a hint at the nearest that is. Pure, any thread.

#include <cstddef>
#include <string>
#include <string_view>

#include "api/errors.h"

namespace salvage::api {

enum class Route {
  kPage,  // the built-in page and its files; `argument` is the path
  kHealth,
  kModels,
  kModel,  // `argument` is its name
  kChatCompletions,
  kChatInputTokens,
  kCompletions,
  kResponses,
  kResponsesInputTokens,
  kMessages,
  kCountTokens,
  kLlamaCompletion,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kProps,
  kSlots,
  kMetrics,
  kRequests,
  kRequest,  // DELETE; `argument` is its id
  kCluster,
};
inline constexpr std::size_t kRouteCount = static_cast<std::size_t>(Route::kCluster) + 1;

// How documents and metrics spell it: "/v1/chat/completions", "/v1/models/NAME".
std::string_view route_name(Route route);

struct RouteWish {
  std::string_view method;
  std::string_view target;             // as it stands in the request line
  bool has_anthropic_version = false;  // the header: /v1/models has two shapes
};

struct RouteMatch {
  Route route = Route::kPage;
  bool head = false;       // the answer's body is not wanted
  bool is_public = false;  // answered without a key
  std::string argument;    // percent-decoded
};

struct RouteAnswer {
  Dress dress = Dress::kOpenAi;  // of every error to this request
  Parsed<RouteMatch> match;      // unknown_url, method_not_allowed, not_supported
};

RouteAnswer match_route(const RouteWish& wish);

// "%2F" is "/"; what is no such code stays as it is.
std::string percent_decoded(std::string_view text);

}  // namespace salvage::api
