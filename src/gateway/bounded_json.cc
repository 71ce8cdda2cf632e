#include "gateway/bounded_json.h"

#include <exception>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace salvage::gateway {
namespace {

using Json = nlohmann::ordered_json;

// How deep brackets nest outside of texts, so that a hostile "[[[[..." never reaches a parser that
// would build it.
bool deeper_than(std::string_view text, int depth_max) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (++depth > depth_max) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<Json> parse_bounded_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the JSON has {} bytes, at most {} are taken", text.size(), limits.bytes_max));
  }
  if (deeper_than(text, limits.depth_max)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the JSON nests deeper than {} levels", limits.depth_max));
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("this is no JSON: something is wrong at byte {}", error.byte));
  } catch (const std::exception& error) {  // numbers out of range, memory
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the JSON can't be read: {}", error.what()));
  }
}

std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace salvage::gateway
