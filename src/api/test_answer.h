#pragma once

// For tests only: events as short as can be, and a stream's bytes taken apart again.

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/answer.h"

namespace salvage::api {

// What a client sees of a frame.
struct SseFrame {
  std::string event;
  std::string data;
  std::string comment;
};

inline std::vector<SseFrame> frames_of(std::string_view bytes) {
  std::vector<SseFrame> frames;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find("\n\n");
    EXPECT_NE(end, std::string_view::npos) << "half a frame: " << bytes;
    if (end == std::string_view::npos) break;
    std::string_view frame = bytes.substr(0, end);
    bytes.remove_prefix(end + 2);
    SseFrame& seen = frames.emplace_back();
    while (!frame.empty()) {
      const std::string_view line = frame.substr(0, frame.find('\n'));
      frame.remove_prefix(std::min(frame.size(), line.size() + 1));
      if (line.starts_with("event: ")) seen.event = line.substr(7);
      if (line.starts_with("data: ")) seen.data = line.substr(6);
      if (line.starts_with(": ")) seen.comment = line.substr(2);
    }
  }
  return frames;
}

// The JSON of all frames that have some.
inline std::vector<Json> data_of(std::string_view bytes) {
  std::vector<Json> all;
  for (const SseFrame& frame : frames_of(bytes)) {
    if (frame.data.empty() || frame.data == "[DONE]") continue;
    EXPECT_TRUE(Json::accept(frame.data)) << frame.data;
    all.push_back(Json::parse(frame.data));
  }
  return all;
}

inline AnswerInfo test_info(Dialect dialect) {
  AnswerInfo info;
  info.dialect = dialect;
  info.unique = "u";
  info.created_s = 1767225600;
  info.model = "m";
  info.request_id = "r";
  return info;
}

inline Finished finished(StopReason reason, std::uint32_t choice = 0) {
  return {.choice = choice,
          .reason = reason,
          .usage = {.prompt_tokens = 10, .cached_tokens = 4, .answer_tokens = 3},
          .timings = {.cached_tokens = 4,
                      .prompt_tokens = 6,
                      .prompt_ms = 60,
                      .answer_tokens = 3,
                      .answer_ms = 1500}};
}

// All bytes of a stream.
inline std::string streamed(const AnswerInfo& info, const std::vector<AnswerEvent>& events) {
  const auto stream = AnswerStream::make(info);
  std::string bytes;
  for (const AnswerEvent& event : events) bytes += stream->take(event);
  return bytes;
}

inline Json whole(const AnswerInfo& info, const std::vector<AnswerEvent>& events) {
  WholeAnswer answer(info);
  for (const AnswerEvent& event : events) answer.take(event);
  EXPECT_TRUE(answer.ended());
  EXPECT_FALSE(answer.failure());
  return answer.ended() ? Json::parse(answer.body()) : Json();
}

}  // namespace salvage::api
