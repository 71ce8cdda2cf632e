#pragma once

// One request to the API as its endpoints see it: an id, the route that it takes, and how errors
// are dressed for the client that sent it. Lives as long as the call that answers; used by one
// thread.

#include <optional>
#include <string>

#include "api/errors.h"
#include "api/routes.h"
#include "base/clock.h"
#include "http/http_service.h"

namespace salvage::gateway {

struct ApiCall {
  // `http_request` outlives the object.
  ApiCall(const http::HttpRequest& http_request, TimePoint now);

  http::HttpReply error(const api::ApiError& error) const;
  http::HttpReply json(std::string body, const char* content_type = "application/json") const;
  // The id goes back with every answer, the client's own if it sent a good one.
  void put_id(http::HttpReply& reply) const;
  std::optional<api::Route> endpoint() const;

  const http::HttpRequest& request;
  const TimePoint begun;
  const std::string id;
  const api::RouteAnswer route;
};

}  // namespace salvage::gateway
