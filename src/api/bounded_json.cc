#include "api/bounded_json.h"

#include <exception>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace salvage::api {
namespace {

// Counts what a text would cost a parser, without building anything: a hostile "[[[[..." or an
// object of a million keys never reaches one. Whether the text is JSON at all is the parser's part.
class JsonScan {
 public:
  explicit JsonScan(const JsonLimits& limits) : limits_(limits) {}

  // What of the limits the text breaks; empty if nothing.
  std::string broken_by(std::string_view text) {
    bool in_text = false;
    for (std::size_t i = 0; i < text.size() && problem_.empty(); ++i) {
      const char c = text[i];
      if (in_text) {
        if (c == '\\') ++i;
        if (c == '"') in_text = false;
      } else if (c == '"') {
        in_text = true;
      } else {
        look_at(c);
      }
    }
    return problem_;
  }

 private:
  void look_at(char c) {
    switch (c) {
      case '{':
      case '[':
        keys_.push_back(0);
        if (keys_.size() > static_cast<std::size_t>(limits_.depth_max)) {
          problem_ = fmt::format("the JSON nests deeper than {} levels", limits_.depth_max);
        }
        return count_value();
      case ',':
        return count_value();
      case ':':
        return count_key();
      case '}':
      case ']':
        if (!keys_.empty()) keys_.pop_back();
        return;
      default:
        return;
    }
  }

  void count_value() {
    if (++values_ <= limits_.values_max) return;
    problem_ = fmt::format("the JSON has more than {} values", limits_.values_max);
  }

  void count_key() {
    if (keys_.empty()) return;
    lookups_ += keys_.back()++;
    if (lookups_ > limits_.key_lookups_max) problem_ = "the JSON has objects of too many keys";
  }

  const JsonLimits& limits_;
  std::vector<std::uint64_t> keys_;  // of each open bracket; at most depth_max + 1 of them
  std::size_t values_ = 0;
  std::uint64_t lookups_ = 0;
  std::string problem_;
};

}  // namespace

Result<Json> parse_bounded_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the JSON has {} bytes, at most {} are taken", text.size(), limits.bytes_max));
  }
  if (std::string broken = JsonScan(limits).broken_by(text); !broken.empty()) {
    return fail(ErrorCode::kInvalidArgument, std::move(broken));
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

}  // namespace salvage::api
