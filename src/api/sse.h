#pragma once

// Server-sent events as bytes: one JSON a frame, a blank line behind each. Pure, any thread.

#include <string>
#include <string_view>

#include "api/bounded_json.h"

namespace salvage::api {

inline constexpr std::string_view kSsePing =
    ": ping\n\n";  // a comment: no client takes it for data
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

std::string sse_data(const Json& json);
std::string sse_event(std::string_view name, const Json& json);
// What our own page reads and others pass over: ": salvage {...}".
std::string sse_news(const Json& json);

}  // namespace salvage::api
