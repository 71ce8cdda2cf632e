#include "api/sse.h"

#include <nlohmann/json.hpp>

namespace salvage::api {

std::string sse_data(const Json& json) {
  return "data: " + to_line(json) + "\n\n";
}

std::string sse_event(std::string_view name, const Json& json) {
  return "event: " + std::string(name) + "\n" + sse_data(json);
}

std::string sse_news(const Json& json) {
  return ": salvage " + to_line(json) + "\n\n";
}

}  // namespace salvage::api
