#include "gateway/api_call.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace salvage::gateway {
namespace {

constexpr std::size_t kRequestIdBytesMax = 128;

// The client's own name for the request, if it is one that may stand in a header and a log.
std::string request_id_of(const http::HttpRequest& request) {
  const std::string_view theirs = request.header("x-request-id");
  const bool good =
      !theirs.empty() && theirs.size() <= kRequestIdBytesMax &&
      std::all_of(theirs.begin(), theirs.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (good) return std::string(theirs);
  return "req_" + random_hex(12).value_or("0");
}

}  // namespace

ApiCall::ApiCall(const http::HttpRequest& http_request, TimePoint now)
    : request(http_request),
      begun(now),
      id(request_id_of(http_request)),
      route(api::match_route(
          {.method = http_request.method,
           .target = http_request.target,
           .has_anthropic_version = !http_request.header("anthropic-version").empty()})) {}

http::HttpReply ApiCall::error(const api::ApiError& error) const {
  api::ErrorAnswer answer = api::render_error(error, route.dress, id);
  http::HttpReply reply{.status = answer.status, .body = std::move(answer.body)};
  reply.headers = std::move(answer.headers);
  put_id(reply);
  return reply;
}

http::HttpReply ApiCall::json(std::string body, const char* content_type) const {
  http::HttpReply reply{.content_type = content_type, .body = std::move(body)};
  put_id(reply);
  return reply;
}

// Anthropic's clients look for it under another name.
void ApiCall::put_id(http::HttpReply& reply) const {
  reply.headers.emplace_back("x-request-id", id);
  if (route.dress == api::Dress::kAnthropic) reply.headers.emplace_back("request-id", id);
}

std::optional<api::Route> ApiCall::endpoint() const {
  return route.match ? std::optional(route.match->route) : std::nullopt;
}

}  // namespace salvage::gateway
