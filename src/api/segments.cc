#include "api/segments.h"

#include <algorithm>

#include <fmt/format.h>

namespace salvage::api {

void Segments::add(const AnswerDelta& delta, SegmentListener* listener) {
  waiting_.insert(waiting_.end(), delta.logprobs.begin(), delta.logprobs.end());
  if (!delta.reasoning.empty()) {
    grow(open(SegmentKind::kReasoning, listener), delta.reasoning, listener);
  }
  if (!delta.text.empty()) {
    Segment& segment = open(SegmentKind::kText, listener);
    segment.logprobs.insert(segment.logprobs.end(), waiting_.begin(), waiting_.end());
    grow(segment, delta.text, listener);
  }
  // Thoughts and calls show none.
  if (!delta.reasoning.empty() || !delta.text.empty() || !delta.calls.empty()) waiting_.clear();
  for (const ToolCallDelta& call : delta.calls) {
    Segment& segment = open_call(call, listener);
    if (!call.arguments.empty()) grow(segment, call.arguments, listener);
  }
}

void Segments::finish(SegmentListener* listener) {
  if (!is_open_) return;
  Segment& last = segments_.back();
  if (last.kind == SegmentKind::kCall && last.text.empty()) grow(last, "{}", listener);
  is_open_ = false;
  if (listener != nullptr) listener->end(segments_.size() - 1, last);
}

bool Segments::has_calls() const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [](const Segment& segment) { return segment.kind == SegmentKind::kCall; });
}

std::string Segments::joined(SegmentKind kind) const {
  std::string text;
  for (const Segment& segment : segments_) {
    if (segment.kind == kind) text += segment.text;
  }
  return text;
}

Segment& Segments::open(SegmentKind kind, SegmentListener* listener) {
  if (is_open_ && segments_.back().kind == kind) return segments_.back();
  finish(listener);
  segments_.push_back({.kind = kind});
  is_open_ = true;
  if (listener != nullptr) listener->begin(segments_.size() - 1, segments_.back());
  return segments_.back();
}

Segment& Segments::open_call(const ToolCallDelta& delta, SegmentListener* listener) {
  const bool goes_on = is_open_ && segments_.back().kind == SegmentKind::kCall &&
                       segments_.back().call_index == delta.index;
  if (goes_on) return segments_.back();
  finish(listener);
  Segment& segment = segments_.emplace_back();
  segment.kind = SegmentKind::kCall;
  segment.call_index = delta.index;
  segment.name = delta.name;
  segment.id = delta.id.empty() ? fmt::format("call_{}_{}", unique_, delta.index) : delta.id;
  is_open_ = true;
  if (listener != nullptr) listener->begin(segments_.size() - 1, segment);
  return segment;
}

void Segments::grow(Segment& segment, const std::string& more, SegmentListener* listener) {
  segment.text += more;
  if (listener != nullptr) listener->append(segments_.size() - 1, segment, more);
}

}  // namespace salvage::api
