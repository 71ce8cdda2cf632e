#pragma once

// One choice of an answer as it grows: what was thought, said and called, in order, each stretch of
// one kind a segment. Streams are written by listening to segments begin, grow and end; whole
// answers from what they became. Not thread safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/events.h"

namespace salvage::api {

enum class SegmentKind { kReasoning, kText, kCall };

struct Segment {
  SegmentKind kind = SegmentKind::kText;
  std::string text;  // of a call, its arguments
  std::string id;    // of a call
  std::string name;
  std::uint32_t call_index = 0;
  std::vector<TokenLogprob> logprobs;  // of text
};

// Hears of one choice's segments; `index` counts them.
class SegmentListener {
 public:
  virtual ~SegmentListener() = default;
  virtual void begin(std::size_t index, const Segment& segment) = 0;
  virtual void append(std::size_t index, const Segment& segment, const std::string& more) = 0;
  virtual void end(std::size_t index, const Segment& segment) = 0;
};

class Segments {
 public:
  // Calls without an id get "call_<unique>_<index>".
  explicit Segments(std::string unique) : unique_(std::move(unique)) {}

  void add(const AnswerDelta& delta, SegmentListener* listener);
  // Ends the last one. A call that came without arguments has those of {}.
  void finish(SegmentListener* listener);

  std::span<const Segment> all() const { return segments_; }
  bool has_calls() const;
  std::string joined(SegmentKind kind) const;  // the texts of all segments of a kind

 private:
  Segment& open(SegmentKind kind, SegmentListener* listener);
  Segment& open_call(const ToolCallDelta& delta, SegmentListener* listener);
  void grow(Segment& segment, const std::string& more, SegmentListener* listener);

  std::string unique_;
  std::vector<Segment> segments_;
  std::vector<TokenLogprob> waiting_;  // of tokens whose text is held back
  bool is_open_ = false;               // the last one
};

}  // namespace salvage::api
