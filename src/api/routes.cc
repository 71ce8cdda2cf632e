#include "api/routes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/limits.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

enum class Method { kGet, kPost, kDelete };

struct RouteRow {
  std::string_view path;  // without /v1
  Method method;
  Route route;
  Dress dress;
  bool under_v1;  // how the hint spells it
  bool is_public = false;
};

constexpr RouteRow kRoutes[] = {
    {"/health", Method::kGet, Route::kHealth, Dress::kLlama, false, true},
    {"/models", Method::kGet, Route::kModels, Dress::kOpenAi, true},
    {"/chat/completions", Method::kPost, Route::kChatCompletions, Dress::kOpenAi, true},
    {"/chat/completions/input_tokens", Method::kPost, Route::kChatInputTokens, Dress::kOpenAi,
     true},
    {"/completions", Method::kPost, Route::kCompletions, Dress::kOpenAi, true},
    {"/responses", Method::kPost, Route::kResponses, Dress::kOpenAi, true},
    {"/responses/input_tokens", Method::kPost, Route::kResponsesInputTokens, Dress::kOpenAi, true},
    {"/messages", Method::kPost, Route::kMessages, Dress::kAnthropic, true},
    {"/messages/count_tokens", Method::kPost, Route::kCountTokens, Dress::kAnthropic, true},
    {"/completion", Method::kPost, Route::kLlamaCompletion, Dress::kLlama, false},
    {"/tokenize", Method::kPost, Route::kTokenize, Dress::kLlama, false},
    {"/detokenize", Method::kPost, Route::kDetokenize, Dress::kLlama, false},
    {"/apply-template", Method::kPost, Route::kApplyTemplate, Dress::kLlama, false},
    {"/props", Method::kGet, Route::kProps, Dress::kLlama, false},
    {"/slots", Method::kGet, Route::kSlots, Dress::kLlama, false},
    {"/metrics", Method::kGet, Route::kMetrics, Dress::kLlama, false},
    {"/requests", Method::kGet, Route::kRequests, Dress::kOpenAi, true},
    {"/cluster", Method::kGet, Route::kCluster, Dress::kOpenAi, true},
};

// Known to clients, but not what this program does: never a 200, never an "unknown path".
constexpr std::string_view kNotServed[] = {
    "/embeddings",        "/embedding",    "/rerank",        "/reranking",
    "/v2/rerank",         "/audio",        "/images",        "/moderations",
    "/batches",           "/files",        "/vector_stores", "/fine_tuning",
    "/assistants",        "/threads",      "/uploads",       "/realtime",
    "/conversations",     "/videos",       "/infill",        "/lora-adapters",
    "/chat/completions/", "/responses/",   "/messages/",     "/slots/",
    "/api/chat",          "/api/generate", "/api/tags",
};

// The path without query, doubled slashes, a slash at its end, and /v1 at its beginning.
std::string plain_path(std::string_view target) {
  std::string path;
  for (const char c : target.substr(0, target.find_first_of("?#"))) {
    if (c != '/' || path.empty() || path.back() != '/') path.push_back(c);
  }
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  while (path == "/v1" || path.starts_with("/v1/")) path.erase(0, 3);
  return path.empty() ? "/" : path;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// How many letters must be put in, taken out or changed (Levenshtein); both texts are short.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row[b.size()];
}

std::string spelled(const RouteRow& row) {
  return (row.under_v1 ? "/v1" : "") + std::string(row.path);
}

// The route that is fewest letters away from `path`, if fewer than `letters_end`.
const RouteRow* nearest_route(std::string_view path, std::size_t letters_end) {
  const RouteRow* nearest = nullptr;
  for (const RouteRow& row : kRoutes) {
    const std::size_t letters = edit_distance(path, row.path);
    if (letters >= letters_end) continue;
    nearest = &row;
    letters_end = letters;
  }
  return nearest;
}

// The longest route that `path` ends with: "/openai/v1/chat/completions".
const RouteRow* route_at_end(std::string_view path) {
  const RouteRow* longest = nullptr;
  for (const RouteRow& row : kRoutes) {
    const bool is_longer = longest == nullptr || row.path.size() > longest->path.size();
    if (path.ends_with(row.path) && is_longer) longest = &row;
  }
  return longest;
}

// A slip of two letters is likelier than a foreign base, and that than another word.
std::string hint_for(std::string_view path) {
  const RouteRow* meant = nearest_route(path, 3);
  if (meant == nullptr) meant = route_at_end(path);
  if (meant == nullptr) meant = nearest_route(path, path.size() / 3 + 1);
  return meant == nullptr ? "" : fmt::format("did you mean {}?", spelled(*meant));
}

bool is_page(std::string_view path) {
  return path == "/" || path == "/index.html" || path == "/favicon.ico" || path == "/favicon.svg" ||
         path.starts_with("/assets/");
}

bool is_not_served(std::string_view path) {
  return std::any_of(std::begin(kNotServed), std::end(kNotServed), [path](std::string_view known) {
    if (!path.starts_with(known)) return false;
    return known.ends_with('/') || path.size() == known.size() || path[known.size()] == '/';
  });
}

Parsed<RouteMatch> allowed(const RouteWish& wish, Method method, RouteMatch match) {
  const bool is_get = wish.method == "GET" || wish.method == "HEAD";
  if (method == Method::kGet && is_get) {
    match.head = wish.method == "HEAD";
    return match;
  }
  if (method == Method::kPost && wish.method == "POST") return match;
  if (method == Method::kDelete && wish.method == "DELETE") return match;
  const char* allow = method == Method::kGet    ? "GET, HEAD"
                      : method == Method::kPost ? "POST"
                                                : "DELETE";
  return fail(ApiError{.kind = ErrorKind::kMethodNotAllowed,
                       .message = fmt::format("the method {} is not served here, only {}",
                                              in_quotes(wish.method), allow),
                       .allow = allow});
}

ApiError unknown_path(std::string_view path) {
  ApiError error{.kind = ErrorKind::kUnknownUrl,
                 .message = fmt::format("nothing is served at {}", in_quotes(path)),
                 .hint = hint_for(path)};
  if (!error.hint.empty()) error.message += "; " + error.hint;
  return error;
}

Dress dress_of(std::string_view path, bool has_anthropic_version) {
  if (path == "/messages" || path.starts_with("/messages/")) return Dress::kAnthropic;
  const bool is_models = path == "/models" || path.starts_with("/models/");
  if (is_models && has_anthropic_version) return Dress::kAnthropic;
  for (const RouteRow& row : kRoutes) {
    if (row.path == path) return row.dress;
  }
  return Dress::kOpenAi;
}

Parsed<RouteMatch> match_path(const RouteWish& wish, const std::string& path) {
  if (is_page(path)) {
    return allowed(wish, Method::kGet,
                   {.route = Route::kPage, .is_public = true, .argument = percent_decoded(path)});
  }
  for (const RouteRow& row : kRoutes) {
    if (row.path != path) continue;
    return allowed(wish, row.method, {.route = row.route, .is_public = row.is_public});
  }
  constexpr std::string_view kRequestPrefix = "/requests/";
  if (path.starts_with(kRequestPrefix)) {
    return allowed(wish, Method::kDelete,
                   {.route = Route::kRequest,
                    .argument = percent_decoded(path.substr(kRequestPrefix.size()))});
  }
  constexpr std::string_view kModelPrefix = "/models/";
  if (path.starts_with(kModelPrefix)) {
    return allowed(
        wish, Method::kGet,
        {.route = Route::kModel, .argument = percent_decoded(path.substr(kModelPrefix.size()))});
  }
  if (is_not_served(path)) {
    return fail(
        ApiError{.kind = ErrorKind::kNotSupported,
                 .message = fmt::format("{} is not offered by this program", in_quotes(path))});
  }
  return fail(unknown_path(path));
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low >= 0) {
      decoded.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

std::string_view route_name(Route route) {
  static constexpr std::array<std::string_view, kRouteCount> kNames = {
      "/",
      "/health",
      "/v1/models",
      "/v1/models/NAME",
      "/v1/chat/completions",
      "/v1/chat/completions/input_tokens",
      "/v1/completions",
      "/v1/responses",
      "/v1/responses/input_tokens",
      "/v1/messages",
      "/v1/messages/count_tokens",
      "/completion",
      "/tokenize",
      "/detokenize",
      "/apply-template",
      "/props",
      "/slots",
      "/metrics",
      "/v1/requests",
      "/v1/requests/ID",
      "/v1/cluster",
  };
  return kNames[static_cast<std::size_t>(route)];
}

RouteAnswer match_route(const RouteWish& wish) {
  if (wish.target.size() > kPathBytesMax || !wish.target.starts_with('/')) {
    return {.match = fail(ApiError{.kind = ErrorKind::kUnknownUrl,
                                   .message = "the path must begin with / and be of at most " +
                                              std::to_string(kPathBytesMax) + " bytes"})};
  }
  const std::string path = plain_path(wish.target);
  return {.dress = dress_of(path, wish.has_anthropic_version), .match = match_path(wish, path)};
}

}  // namespace salvage::api
