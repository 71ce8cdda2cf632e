#pragma once

// Server-sent events as a browser reads them (WHATWG, "Parsing an event stream"), written apart
// from what writes ours, so that both can't be wrong alike. For fuzzers.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace salvage::fuzz {

struct SseEvent {
  std::string name;  // "message" if none was given
  std::string data;
};

struct SseText {
  std::vector<SseEvent> events;
  std::vector<std::string> comments;
  bool whole = true;  // nothing behind the last blank line, no field that we never write
};

inline SseText read_sse(std::string_view bytes) {
  SseText text;
  std::string name;
  std::optional<std::string> data;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      text.whole = false;
      break;
    }
    const std::string_view line = bytes.substr(0, end);
    const bool two = bytes.substr(end).starts_with("\r\n");
    bytes.remove_prefix(end + (two ? 2 : 1));
    if (line.empty()) {
      if (data) text.events.push_back({name.empty() ? "message" : name, *data});
      name.clear();
      data.reset();
      continue;
    }
    const std::size_t colon = line.find(':');
    const std::string_view field = line.substr(0, colon);
    std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (field.empty()) {
      text.comments.emplace_back(value);
    } else if (field == "data") {
      data = data ? *data + '\n' + std::string(value) : std::string(value);
    } else if (field == "event") {
      name = value;
    } else {
      text.whole = false;
    }
  }
  if (data || !name.empty()) text.whole = false;
  return text;
}

}  // namespace salvage::fuzz
