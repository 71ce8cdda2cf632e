#pragma once

// For tests only: requests that must be taken, or refused.

#include <string_view>

#include <gtest/gtest.h>

#include "api/generate_request.h"

namespace salvage::api {

inline GenerateRequest taken(Dialect dialect, std::string_view body,
                             const ParseLimits& limits = {}) {
  auto request = parse_request(dialect, body, limits);
  EXPECT_TRUE(request) << body << ": " << request.error().message;
  return request ? std::move(*request) : GenerateRequest{};
}

inline ApiError refused(Dialect dialect, std::string_view body, const ParseLimits& limits = {}) {
  auto request = parse_request(dialect, body, limits);
  EXPECT_FALSE(request) << body;
  return request ? ApiError{} : request.error();
}

}  // namespace salvage::api
